// NCCL's functions, as <nccl.h> declares them, for the emulated device.
// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>

#include <cstring>
#include <utility>
#include <vector>

#include "cuda_emulation/control.hpp"
#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/nccl/communicator.hpp"

using namespace trireme::cuda_emulation;
using namespace trireme::cuda_emulation::nccl;

namespace trireme::cuda_emulation::nccl {
namespace {

// The group that this thread's calls are part of.
struct Grouped {
  ncclComm_t comm;
  Communicator::Pending work;
};
struct Group {
  int depth = 0;
  std::vector<Grouped> calls;
  ncclResult_t error = ncclSuccess;
};
thread_local Group group;
thread_local std::string last_text;

ncclResult_t refuse(ncclResult_t code, const char* text) {
  last_text = text;
  return code;
}

template <class Body>
ncclResult_t alone(Body body) {
  const std::lock_guard lock(api_mutex());
  if (Streams::get().running()) return refuse(ncclInvalidUsage, "called by a kernel");
  note_progress();
  return body();
}

// The same for calls that take memory or wait, which a recording does not allow.
template <class Body>
ncclResult_t outside_of_recordings(Body body) {
  return alone([&] {
    if (Streams::get().refusal() != cudaSuccess)
      return refuse(ncclUnhandledCudaError, "a stream of this thread records");
    return body();
  });
}

ncclResult_t check(const Communicator& communicator) {
  if (communicator.error != ncclSuccess) return communicator.error;
  if (communicator.family->aborted)
    return refuse(ncclInvalidUsage,
                  "the communicator, or one that it shares resources with, was aborted");
  if (communicator.finalizing)
    return refuse(ncclInvalidUsage, "the communicator has been finalized");
  if (!communicator.has_joined || communicator.pending != nullptr)
    return refuse(ncclInvalidUsage,
                  "a call before the one in progress is over (ncclCommGetAsyncError)");
  return ncclSuccess;
}

ncclResult_t check(const Communicator& communicator, const Call& call) {
  if (call.peer < 0 || call.peer >= communicator.size)
    return refuse(ncclInvalidArgument, "a root or peer outside of the communicator");
  const std::size_t width = size_of(call.type), bytes = call.count * width;
  if (width == 0) return refuse(ncclInvalidArgument, "a type that is not known");
  if (call.reduction != ncclSum && call.reduction != ncclMax)
    return refuse(ncclInvalidArgument, "a reduction that is not emulated");
  const auto ranks = static_cast<std::size_t>(communicator.size);
  const std::size_t from = call.kind == Kind::reduce_scatter ? bytes * ranks : bytes;
  const std::size_t to = call.kind == Kind::all_gather ? bytes * ranks : bytes;
  const bool reads = call.kind != Kind::broadcast || call.peer == communicator.rank;
  const bool is_message = call.kind == Kind::point_to_point;
  const auto wrong = [](const void* data, std::size_t n) {
    return n > 0 && !is_device_range(data, n);
  };
  if ((is_message ? call.from != nullptr : reads) && wrong(call.from, from))
    return refuse(ncclInvalidArgument, "what is sent is not in the device's memory");
  if ((is_message ? call.to != nullptr : true) && wrong(call.to, to))
    return refuse(ncclInvalidArgument, "what is received is not in the device's memory");
  return ncclSuccess;
}

ncclResult_t start(ncclComm_t comm, Communicator::Pending work) {
  Communicator& communicator = *comm->is;
  if (const ncclResult_t code = check(communicator)) return code;
  communicator.pending = std::make_unique<Communicator::Pending>(std::move(work));
  return communicator.wait_if_blocking();
}

ncclResult_t call_in_group(ncclComm_t comm, const Call& call, cudaStream_t stream) {
  for (Grouped& grouped : group.calls) {
    if (grouped.comm != comm) continue;
    if (grouped.work.stream != stream)
      return refuse(ncclInvalidUsage, "a group with two streams is not emulated");
    grouped.work.calls.push_back(call);
    return ncclSuccess;
  }
  Grouped grouped{comm, {}};
  grouped.work.stream = stream;
  grouped.work.calls.push_back(call);
  group.calls.push_back(std::move(grouped));
  return ncclSuccess;
}

ncclResult_t make(ncclComm_t comm, const Call& call, cudaStream_t stream) {
  return alone([&] {
    if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
    ncclResult_t code = check(*comm->is);
    if (code == ncclSuccess) code = check(*comm->is, call);
    if (group.depth > 0) {
      if (code == ncclSuccess) code = call_in_group(comm, call, stream);
      if (code != ncclSuccess) group.error = code;
      return code;
    }
    if (code != ncclSuccess) return code;
    Communicator::Pending work;
    work.calls = {call};
    work.stream = stream;
    return start(comm, std::move(work));
  });
}

}  // namespace
}  // namespace trireme::cuda_emulation::nccl

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  const bool has_own = comm != nullptr && !comm->is->text.empty();
  return has_own ? comm->is->text.c_str() : last_text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  const SegmentName name = Segment::create();
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &name, sizeof name);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                    int rank, ncclConfig_t* config) {
  return outside_of_recordings([&] {
    SegmentName name;
    std::memcpy(static_cast<void*>(&name), &id, sizeof name);
    if (comm == nullptr || !name.is_valid() || ranks < 1 || ranks > most_ranks ||
        rank < 0 || rank >= ranks)
      return refuse(ncclInvalidArgument, "ranks, rank or id of a communicator");
    ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
    auto made = std::make_shared<Communicator>();
    made->join(name, rank, ranks, config == nullptr ? usual : *config);
    *comm = new ncclComm{made};
    return made->wait_if_blocking();
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  return outside_of_recordings([&] {
    if (comm == nullptr || child == nullptr)
      return refuse(ncclInvalidArgument, "no communicator to split");
    if (const ncclResult_t code = check(*comm->is)) return code;
    Communicator::Pending work;
    ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
    work.config = config == nullptr ? usual : *config;
    // A child takes from its parent what is not said.
    if (work.config.blocking == NCCL_CONFIG_UNDEF_INT)
      work.config.blocking = comm->is->blocks ? 1 : 0;
    work.child = child;
    work.color = color;
    work.key = key;
    work.is_split = true;
    *child = nullptr;
    const ncclResult_t code = start(comm, std::move(work));
    // Where calls block, the child is ready when the call returns.
    return code == ncclSuccess && *child != nullptr ? (*child)->is->wait_if_blocking()
                                                    : code;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(api_mutex());
  if (comm == nullptr || state == nullptr) return ncclInvalidArgument;
  *state = comm->is->advance();
  if (*state != ncclInProgress) return ncclSuccess;
  Streams::get().move();
  note_vain_look();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = comm->is->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->is->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return outside_of_recordings([&] {
    if (comm == nullptr) return ncclInvalidArgument;
    if (const ncclResult_t code = check(*comm->is)) return code;
    comm->is->finalizing = true;
    return comm->is->wait_if_blocking();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return alone([&] {
    if (comm == nullptr) return ncclInvalidArgument;
    if (!comm->is->finalized)
      return refuse(ncclInvalidUsage, "destroyed before it was finalized");
    delete comm;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return alone([&] {
    if (comm == nullptr) return ncclInvalidArgument;
    comm->is->family->aborted = true;
    Streams::get().move();
    delete comm;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  if (group.depth++ == 0) group.error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return alone([&] {
    if (group.depth == 0) return refuse(ncclInvalidUsage, "the end of no group");
    if (--group.depth > 0) return ncclSuccess;
    const std::vector<Grouped> calls = std::exchange(group.calls, {});
    if (group.error != ncclSuccess) return group.error;
    ncclResult_t result = ncclSuccess;
    for (const Grouped& grouped : calls) {
      Communicator::Pending work;
      work.calls = grouped.work.calls;
      work.stream = grouped.work.stream;
      const ncclResult_t code = start(grouped.comm, std::move(work));
      if (code != ncclSuccess) result = code;
    }
    return result;
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return make(comm, {Kind::all_reduce, from, to, count, type, op, 0}, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count,
                        ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return make(comm, {Kind::reduce, from, to, count, type, op, root}, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return make(comm, {Kind::reduce_scatter, from, to, count, type, op, 0}, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return make(comm, {Kind::all_gather, from, to, count, type, ncclSum, 0}, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return make(comm, {Kind::broadcast, from, to, count, type, ncclSum, root}, stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return make(comm, {Kind::point_to_point, from, nullptr, count, type, ncclSum, peer},
              stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return make(comm, {Kind::point_to_point, nullptr, to, count, type, ncclSum, peer},
              stream);
}
