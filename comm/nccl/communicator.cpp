// NcclCommunicator: makes a communicator of NCCL, and waits for it with a time limit.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/communicator.hpp"

#include <exception>
#include <utility>

#include "base/use_device.hpp"
#include "comm/mpi/spin_wait.hpp"

namespace trireme::comm {

void check_nccl(ncclResult_t code, const char* call, const std::string& what) {
  require(code == ncclSuccess, Status::transport, "{} on axis '{}' failed: {} ({})", call,
          what, ncclGetErrorString(code), ncclGetLastError(nullptr));
}

namespace {

// A thread makes streams on the device that is its current one.
Device on_current(Device device) {
  use_device(device);
  return device;
}

}  // namespace

NcclCommunicator::NcclCommunicator(WorldState& state, const ncclUniqueId& id, int rank,
                                   int size, Device device, std::string what,
                                   int max_ctas)
    : state_(state),
      device_(device),
      what_(std::move(what)),
      stream_(on_current(device)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (max_ctas > 0) config.maxCTAs = max_ctas;
  settle(ncclCommInitRankConfig(&comm_, size, id, rank, &config),
         "ncclCommInitRankConfig");
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclCommunicator> parent, int color,
                                   int key, std::string what)
    : parent_(std::move(parent)),
      state_(parent_->state_),
      device_(parent_->device_),
      what_(std::move(what)),
      stream_(on_current(device_)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  parent_->settle(ncclCommSplit(parent_->comm_, color, key, &comm_, &config),
                  "ncclCommSplit");
  settle(ncclInProgress, "ncclCommSplit");
}

void NcclCommunicator::leave_out() {
  ncclComm_t none = nullptr;
  settle(ncclCommSplit(comm_, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), "ncclCommSplit");
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > 0 || !current_state() || state_.abandoned) {
    give_up();
    return;
  }
  try {
    settle(ncclCommFinalize(comm_), "ncclCommFinalize");
    check_nccl(ncclCommDestroy(comm_), "ncclCommDestroy", what_);
  } catch (const Error&) {
    give_up();  // the job ends anyhow, and an error of its work was or will be reported
  }
}

void NcclCommunicator::enqueue(
    const char* name, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call) {
  settle(call(comm_, static_cast<cudaStream_t>(stream().native())), name);
}

std::string NcclCommunicator::error() const {
  ncclResult_t state = ncclSuccess;
  if (comm_ == nullptr || ncclCommGetAsyncError(comm_, &state) != ncclSuccess ||
      state == ncclSuccess || state == ncclInProgress)
    return {};
  return format("{} ({})", ncclGetErrorString(state), ncclGetLastError(comm_));
}

void NcclCommunicator::give_up() noexcept {
  if (ncclComm_t comm = std::exchange(comm_, nullptr)) ncclCommAbort(comm);
}

void NcclCommunicator::settle(ncclResult_t code, const char* call) {
  if (code == ncclInProgress) {
    SpinWait spin_wait(state_, [&] {
      return Awaited{.group = what_,
                     .operation = call,
                     .tensor = "",
                     .sequence = 0,
                     .members = state_.ranks,
                     .absent = {}};
    });
    while (code == ncclInProgress) {
      state_.progress();
      check_nccl(ncclCommGetAsyncError(comm_, &code), "ncclCommGetAsyncError", what_);
      if (code == ncclInProgress) spin_wait.idle();
    }
  }
  check_nccl(code, call, what_);
}

}  // namespace trireme::comm
