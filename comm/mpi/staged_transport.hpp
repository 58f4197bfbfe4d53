// StagedTransport: collectives of GPU tensors through pinned memory of the host and MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/event.hpp"
#include "comm/device_transport.hpp"
#include "comm/mpi/mpi_group.hpp"
#include "comm/staging.hpp"

namespace trireme::comm {

class StagedTransport;

// One collective: what is sent is copied to the host, travels as a collective of the host
// group, and what has come is copied to the GPU.
class StagedOperation final : public Handle::Operation {
 public:
  explicit StagedOperation(StagedTransport& transport);

  bool progress() override;
  // Blocks for the own device until it has come to the copy out, then for messages. The
  // copy in is waited for by the stream.
  void wait() override;
  void abandon() noexcept override;

 private:
  friend class StagedTransport;
  enum class State { copying_out, in_flight, copying_in };

  bool copied_out() const;
  void copy_in();
  void finish();  // once copying in: the stream holds, staging memory goes back

  StagedTransport& transport_;
  State state_ = State::copying_out;
  Stream stream_;             // of the program
  Event started_, out_done_;  // where the program's stream was; the copy out
  bool copies_out_ = false;
  TensorView source_, target_;  // of the copy in; empty: nothing comes in
  int block_ = StagingPool::none;
  MpiOperation* message_ = nullptr;
};

// Staging memory is given back by wait(), as on the host, but the copy in may then still
// read it. Who takes a block next writes to it only after its last copy in.
//
// Progress: the messages of a group start in the order of the calls. A collective that is
// not at the head of the queue waits for copies of this rank's own device alone, never
// for another rank, so that this order cannot make ranks wait for each other in a circle.
class StagedTransport final : public DeviceTransport, public ProgressSource {
 public:
  // The group outlives the transport.
  StagedTransport(MpiGroup& group, Device device);
  ~StagedTransport() override;
  StagedTransport(const StagedTransport&) = delete;
  StagedTransport& operator=(const StagedTransport&) = delete;

  Handle start(const Group::Call& call, Stream& stream, const TensorView& from,
               const TensorView& to) override;
  std::size_t staging_bytes() const override { return pool_.bytes(); }
  // Posts what has been copied out, and copies in what has come.
  void progress() override;

 private:
  friend class StagedOperation;
  // The same collective on the host.
  struct Staged {
    TensorView from, to;    // of the messages
    TensorView sent, come;  // the parts to copy out and in; empty: none
  };

  StagedOperation& take();
  Staged stage(const Group::Call& call, const TensorView& to, int block) const;
  // Queues the copy of `from` to its place on the host.
  void copy_out(StagedOperation& operation, const TensorView& from,
                const TensorView& place);
  // No longer moved by progress().
  void forget(const StagedOperation* operation);

  MpiGroup& group_;
  Device device_;
  // A queue for each direction: a copy in never waits for a copy out, which waits for
  // what the program has queued.
  SideStream out_, in_;
  StagingPool pool_;
  std::vector<Event> copied_in_;  // of each block: its last copy in
  std::vector<std::unique_ptr<StagedOperation>> operations_;
  std::vector<StagedOperation*> free_, queue_, flying_;
};

}  // namespace trireme::comm
