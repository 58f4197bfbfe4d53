// NcclCommunicator: a communicator of NCCL and the queue that its work is put on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <string>

#include "base/event.hpp"
#include "comm/mpi/state.hpp"
#include "comm/nccl/call_watch.hpp"

namespace trireme::comm {

// Calls return when their work is on the stream, which needs no other rank once all is
// connected (blocking = 1: without it NCCL makes a thread for each). Making communicators
// waits for the other ranks. The world's time-out holds for every call (CallWatch).
class NcclCommunicator {
 public:
  // How a communicator is made otherwise than NCCL likes.
  struct Options {
    int max_ctas = 0;     // blocks of a kernel that wait on the GPU; 0: as NCCL likes
    bool shares = false;  // its resources with those that are split off it
  };
  // Collective over the `size` ranks that hold the same id. `what` is for messages:
  // the axis, and which ranks of it.
  NcclCommunicator(WorldState& state, const ncclUniqueId& id, int rank, int size,
                   Device device, std::string what, const Options& options);
  // Collective over the ranks of `parent`, which lives longer: those that give one color
  // are in one communicator, in the order of `key`.
  NcclCommunicator(std::shared_ptr<NcclCommunicator> parent, int color, int key,
                   std::string what);
  // Takes part in a split as a rank that is in none of the new communicators.
  void leave_out();
  // Collective, unless an exception passes, or the world has been abandoned or is gone.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  Stream& stream() { return stream_.stream(); }
  // Runs `work`, and returns when its work is on the stream.
  void enqueue(const char* name,
               const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& work);
  // What has gone wrong on the way, in NCCL's words; empty: nothing. Any thread.
  std::string error() const;

 private:
  // The code of `body`, which calls NCCL; throws Error(transport) for a failure.
  void call(const char* name, const std::function<ncclResult_t()>& body);

  std::shared_ptr<NcclCommunicator> parent_;  // of a split: lives on
  std::shared_ptr<CallWatch> watch_ = CallWatch::get();
  WorldState& state_;
  Device device_;
  std::string what_;
  SideStream stream_;
  ncclComm_t comm_ = nullptr;
};

// Throws Error(transport) unless `code` is a success.
void check_nccl(ncclResult_t code, const char* call, const std::string& what);

}  // namespace trireme::comm
