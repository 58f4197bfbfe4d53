// ncclComm: an emulated communicator, and the order in which its work runs.
// SPDX-License-Identifier: Apache-2.0
//
// What is like NCCL 2.28, as its documentation has it:
// - Without `blocking` a call returns ncclInProgress, and nothing is on the stream before
//   ncclCommGetAsyncError has returned ncclSuccess.
// - Connections are made at first use, and that waits for the peers, on the host: of
//   collectives unless NCCL_RUNTIME_CONNECT=0, of messages for each pair.
// - Work of one communicator runs in the order of the calls; work spins on the device
//   until its peers are there.
// - A communicator without a limit of blocks may fill the device: one such kernel runs at
//   a time, the oldest first of those that are ready. Ranks that use two communicators in
//   different orders wait for each other for ever, as NCCL warns.
// - A communicator that was made with splitShare shares its resources with those split
//   off it (what the child's configuration says counts for the child's children): kernels
//   of such a family run in the order of the calls.
// - Calls on a stream that records become part of the graph: each launch issues them
//   anew. All ranks of a communicator launch a recorded call, or none does: else it is an
//   error here, where NCCL may hang. Making, splitting and finalizing communicators, and
//   connecting, is refused while a stream records.
// - ncclCommAbort ends what runs; the results are undefined. Where resources are shared
//   it makes the whole family unusable, which has one flag of abort: what runs of the
//   others ends, too, and their calls are refused.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/nccl/counts.hpp"
#include "kernels/cuda_emulation/nccl/operation.hpp"
#include "kernels/cuda_emulation/nccl/segment.hpp"

namespace trireme::cuda_emulation::nccl {

// A kernel of a communicator, from the call to its end.
struct Kernel {
  Operation operation;
  std::uint64_t issued;  // among all of this process
  bool starts = false;   // holds its place on the device
};

// Communicators that share their resources; one that shares with none is a family, too.
struct Family {
  std::deque<std::uint64_t> kernels;  // on streams, by number, in the order of the calls
  bool aborted = false;               // by one of them
};

struct Communicator : std::enable_shared_from_this<Communicator> {
  Segment* segment = nullptr;
  SegmentName name;
  int rank = 0, size = 1;
  bool blocks = true;
  int blocks_limit = 0;  // of a kernel; 0: none
  bool connects_lazily = true;
  bool shares = false;  // its resources, with those that are split off it
  std::shared_ptr<Family> family = std::make_shared<Family>();

  bool has_joined = false, finalizing = false, finalized = false;
  std::uint64_t splits = 0;
  std::deque<std::shared_ptr<Kernel>> kernels;  // on the stream, not ended

  // A call that has not come to its end.
  struct Pending {
    std::vector<Call> calls;
    cudaStream_t stream = nullptr;
    // Of a split.
    ncclComm_t* child = nullptr;
    int color = 0, key = 0;
    ncclConfig_t config{};
    bool is_split = false, asked = false;
  };
  std::unique_ptr<Pending> pending;
  ncclResult_t error = ncclSuccess;
  std::string text;  // of the error

  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  void join(const SegmentName& segment_name, int rank, int size,
            const ncclConfig_t& config);
  // Brings what is pending on; ncclInProgress as long as it waits for peers.
  ncclResult_t advance();
  // What a call returns that has left something pending.
  ncclResult_t wait_if_blocking();

 private:
  bool all_have_come();
  bool connect(const std::vector<Call>& calls);
  std::function<bool()> issue(const std::vector<Call>& calls);
  ncclResult_t launch();
  ncclResult_t split();
  bool run(const std::shared_ptr<Kernel>& kernel);
  void end(const Kernel& kernel);
};

}  // namespace trireme::cuda_emulation::nccl

struct ncclComm {
  std::shared_ptr<trireme::cuda_emulation::nccl::Communicator> is;
};
