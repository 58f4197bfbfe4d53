// NcclCommunicator: makes a communicator of NCCL, and calls it with a time limit.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/communicator.hpp"

#include <exception>
#include <utility>

namespace trireme::comm {

void check_nccl(ncclResult_t code, const char* call, const std::string& what) {
  require(code == ncclSuccess, Status::transport, "{} on axis '{}' failed: {} ({})", call,
          what, ncclGetErrorString(code), ncclGetLastError(nullptr));
}

NcclCommunicator::NcclCommunicator(WorldState& state, const ncclUniqueId& id, int rank,
                                   int size, Device device, std::string what,
                                   const Options& options)
    : state_(state), device_(device), what_(std::move(what)), stream_(device) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (options.max_ctas > 0) config.maxCTAs = options.max_ctas;
  if (options.shares) config.splitShare = 1;  // NCCL asks the parent, not the child
  call("ncclCommInitRankConfig",
       [&] { return ncclCommInitRankConfig(&comm_, size, id, rank, &config); });
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclCommunicator> parent, int color,
                                   int key, std::string what)
    : parent_(std::move(parent)),
      state_(parent_->state_),
      device_(parent_->device_),
      what_(std::move(what)),
      stream_(device_) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  call("ncclCommSplit",
       [&] { return ncclCommSplit(parent_->comm_, color, key, &comm_, &config); });
}

void NcclCommunicator::leave_out() {
  ncclComm_t none = nullptr;
  call("ncclCommSplit",
       [&] { return ncclCommSplit(comm_, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr); });
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  // Where work may be left that waits for other ranks, the communicator stays as it is:
  // the driver ends its kernels with the process. ncclCommAbort() waits for this
  // communicator's stream, which may wait for work of another one that nobody has aborted
  // (NVIDIA/nccl #829), and without an end for graphs that hold its collectives.
  if (std::uncaught_exceptions() > 0 || !current_state() || state_.abandoned) return;
  try {
    call("ncclCommFinalize", [&] { return ncclCommFinalize(comm_); });
    call("ncclCommDestroy", [&] { return ncclCommDestroy(comm_); });
  } catch (const Error&) {
    // The job ends anyhow, and an error of its work was or will be reported.
  }
}

void NcclCommunicator::enqueue(
    const char* name, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& work) {
  call(name, [&] { return work(comm_, static_cast<cudaStream_t>(stream().native())); });
}

std::string NcclCommunicator::error() const {
  ncclResult_t state = ncclSuccess;
  if (comm_ == nullptr || ncclCommGetAsyncError(comm_, &state) != ncclSuccess ||
      state == ncclSuccess || state == ncclInProgress)
    return {};
  return format("{} ({})", ncclGetErrorString(state), ncclGetLastError(comm_));
}

void NcclCommunicator::call(const char* name, const std::function<ncclResult_t()>& body) {
  ncclResult_t code = ncclSuccess;
  {
    const CallWatch::Scope scope(*watch_, state_, name, what_);
    code = body();
  }
  check_nccl(code, name, what_);
}

}  // namespace trireme::comm
