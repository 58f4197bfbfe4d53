// Emulated communicators: joining, connecting, launching, splitting.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/nccl/communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/nccl/faults.hpp"
#include "kernels/cuda_emulation/nccl/places.hpp"
#include "kernels/cuda_emulation/streams.hpp"

namespace trireme::cuda_emulation::nccl {
namespace {

std::vector<Communicator*>& live() {
  static std::vector<Communicator*>& all = *new std::vector<Communicator*>;
  return all;
}
int connections = 0;

std::string describe_all() {
  std::string text;
  for (const Communicator* communicator : live()) {
    if (communicator->kernels.empty()) continue;
    const Kernel& kernel = *communicator->kernels.front();
    if (!text.empty()) text += "; ";
    text += "rank " + std::to_string(communicator->rank) + " of " +
            std::to_string(communicator->size) + ": ";
    text += kernel.starts ? "waits for " + kernel.operation.describe()
                          : "waits for a place on the device, or its stream";
  }
  return text;
}

std::size_t to_size(int i) { return static_cast<std::size_t>(i); }

bool is_recording(cudaStream_t handle) {
  const CUstream_st* const stream = Streams::get().find(handle);
  return stream != nullptr && stream->recorded.capture != nullptr;
}

}  // namespace

Communicator::~Communicator() {
  std::erase(live(), this);
  if (segment != nullptr) Segment::detach(segment);
}

void Communicator::join(const SegmentName& segment_name, int own_rank, int ranks,
                        const ncclConfig_t& config) {
  name = segment_name;
  rank = own_rank;
  size = ranks;
  blocks = config.blocking != 0;
  blocks_limit = config.maxCTAs == NCCL_CONFIG_UNDEF_INT ? 0 : config.maxCTAs;
  shares = config.splitShare == 1;
  const char* lazily = std::getenv("NCCL_RUNTIME_CONNECT");
  connects_lazily = lazily == nullptr || std::string(lazily) != "0";
  segment = Segment::attach(name);
  Member& mine = segment->members[to_size(rank)];
  mine.page = own_stall_page();
  mine.has_come = true;
  live().push_back(this);
  describe_waiting(&describe_all);
}

bool Communicator::all_have_come() {
  for (int r = 0; r < size; ++r) {
    if (!segment->members[to_size(r)].has_come) return false;
  }
  for (int r = 0; r < size; ++r) add_stall_page(segment->members[to_size(r)].page);
  return true;
}

// Whether the connections of `calls` are there. A peer makes its end when it calls, too.
bool Communicator::connect(const std::vector<Call>& calls) {
  Member& mine = segment->members[to_size(rank)];
  bool connected = true;
  for (const Call& call : calls) {
    if (call.kind != Kind::point_to_point) {
      mine.wants_collectives = true;
      for (int r = 0; r < size && connects_lazily; ++r)
        connected = connected && segment->members[to_size(r)].wants_collectives;
      continue;
    }
    auto& wanted = mine.wants_peer[to_size(call.peer)];
    if (!wanted.exchange(true)) ++connections;
    connected =
        connected && segment->members[to_size(call.peer)].wants_peer[to_size(rank)];
  }
  return connected;
}

bool Communicator::run(const std::shared_ptr<Kernel>& kernel) {
  if (family->aborted) {
    end(*kernel);
    return true;
  }
  if (kernels.front() != kernel || family->kernels.front() != kernel->issued)
    return false;
  if (!kernel->starts) kernel->starts = places().enter(*kernel, blocks_limit);
  if (!kernel->starts || !kernel->operation.move()) return false;
  end(*kernel);
  kernels.pop_front();
  return true;
}

void Communicator::end(const Kernel& kernel) {
  places().leave(kernel);
  std::erase(family->kernels, kernel.issued);
}

std::function<bool()> Communicator::issue(const std::vector<Call>& calls) {
  if (finalizing) fail("NCCL: a graph is launched whose communicator was finalized");
  auto kernel = std::make_shared<Kernel>(
      Kernel{Operation(*segment, rank, size), places().next_number()});
  for (const Call& call : calls) kernel->operation.add(call);
  kernels.push_back(kernel);
  family->kernels.push_back(kernel->issued);
  return [self = shared_from_this(), kernel] { return self->run(kernel); };
}

// On a stream that records, each launch of the graph issues the kernel.
ncclResult_t Communicator::launch() {
  CUstream_st* const stream = Streams::get().find(pending->stream);
  if (stream == nullptr) return ncclInvalidArgument;
  cudaError_t code = cudaSuccess;
  if (stream->recorded.capture != nullptr) {
    for (Call& call : pending->calls) call.captured = true;
    code = stream->recorded.capture->add_spinning(
        *stream, [self = shared_from_this(), calls = pending->calls] {
          return self->issue(calls);
        });
  } else {
    code = Streams::get().add_spinning(*stream, issue(pending->calls));
  }
  return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

// All ranks of the parent tell their color and key; the first of a color makes the
// segment.
ncclResult_t Communicator::split() {
  Pending& call = *pending;
  const bool first_time = !std::exchange(call.asked, true);
  if (first_time) ++splits;
  const auto word_of = [&](int r) -> SplitWord& {
    return segment->members[to_size(r)].split[splits % 2];
  };
  SplitWord& mine = word_of(rank);
  if (first_time) {
    mine.color = call.color;
    mine.key = call.key;
    mine.splits = splits;
  }
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int r = 0; r < size; ++r) {
    const SplitWord& word = word_of(r);
    if (word.splits < splits) return ncclInProgress;
    if (word.color == call.color) members.emplace_back(word.key, r);
  }
  if (call.color == NCCL_SPLIT_NOCOLOR) {
    *call.child = nullptr;
    return ncclSuccess;
  }
  std::sort(members.begin(), members.end());
  const int leader = members.front().second;
  if (leader == rank && mine.made < splits) {
    mine.made_segment = Segment::create();
    mine.made = splits;
  }
  const SplitWord& word = word_of(leader);
  if (word.made < splits) return ncclInProgress;
  const auto place =
      std::find_if(members.begin(), members.end(),
                   [&](const auto& member) { return member.second == rank; });
  auto child = std::make_shared<Communicator>();
  if (shares) child->family = family;
  child->join(word.made_segment, static_cast<int>(place - members.begin()),
              static_cast<int>(members.size()), call.config);
  *call.child = new ncclComm{child};
  return ncclSuccess;
}

ncclResult_t Communicator::advance() {
  if (error != ncclSuccess) return error;
  if (!has_joined) {
    if (!all_have_come()) return ncclInProgress;
    has_joined = true;
    if (rank == 0) Segment::close(name);
    return ncclSuccess;
  }
  if (finalizing && !finalized) {
    Streams::get().move();
    if (!kernels.empty()) return ncclInProgress;
    finalized = true;
  }
  if (pending == nullptr) return ncclSuccess;
  if (!pending->is_split && !connect(pending->calls)) {
    if (!is_recording(pending->stream)) return ncclInProgress;
    // Connections are memory, which a recording may not take.
    pending.reset();
    return Streams::get().refusal() == cudaSuccess ? ncclInvalidUsage
                                                   : ncclUnhandledCudaError;
  }
  const ncclResult_t code = pending->is_split ? split() : launch();
  if (code == ncclInProgress) return code;
  pending.reset();
  if (code != ncclSuccess) error = code;
  return code;
}

ncclResult_t Communicator::wait_if_blocking() {
  if (!blocks) return ncclInProgress;
  ncclResult_t code = advance();
  while (code == ncclInProgress) {
    Streams::get().move();
    api_mutex().unlock();
    note_vain_look();
    api_mutex().lock();
    code = advance();
  }
  return code;
}

void fail_asynchronously(ncclResult_t error, const std::string& text) {
  const std::lock_guard lock(api_mutex());
  for (Communicator* communicator : live()) {
    communicator->error = error;
    communicator->text = text;
  }
}

Counts counts() {
  std::set<const void*> families;
  for (const Communicator* communicator : live())
    families.insert(communicator->family.get());
  return {static_cast<int>(live().size()), connections,
          static_cast<int>(families.size())};
}

}  // namespace trireme::cuda_emulation::nccl
