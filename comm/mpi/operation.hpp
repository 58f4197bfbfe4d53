// MpiOperation: one collective in flight.
// SPDX-License-Identifier: Apache-2.0
// It is a state machine over point-to-point messages.
#pragma once

#include <array>
#include <vector>

#include "comm/collective.hpp"
#include "comm/group.hpp"
#include "comm/mpi/mpi.hpp"
#include "comm/mpi/state.hpp"
#include "comm/staging.hpp"

namespace trireme::comm {

class MpiGroup;
struct Awaited;

// Lane l works on chunks l, l + lanes, ... of the plan, each through the phases of its
// collective. A phase posts all its messages; when all have passed, its local work is
// done (a sum in rank order) and the next phase is posted. Which phases there are follows
// from the collective and its route (comm/collective.hpp).
//
// An error in transit ends the job where it is found: memory that messages in flight use
// must not go away, as it would if an exception passed.
class MpiOperation final : public Handle::Operation, private StagingPool::Holder {
 public:
  explicit MpiOperation(MpiGroup& group) : group_(group) {}

  // Takes staging memory. `from`: what is sent; `to`: where the result goes, maybe
  // `from`.
  void prepare(const Group::Call& call, std::byte* from, std::byte* to);
  // Its staging memory may be asked for while it is in flight: it is complete() then.
  void hold_staging();
  // Posts the first messages, of what prepare() was told.
  void post();
  // Moves on as far as messages have come; true when complete. For WorldState::progress,
  // which then forgets it.
  bool advance();

  bool progress() override;
  void wait() override;
  // Blocks like wait(), but keeps the staging memory until that is called.
  void complete();
  void abandon() noexcept override;

 private:
  struct Lane {
    std::int64_t chunk = 0;
    int phase = 0;
    int posted = 0;  // messages of this phase
    int outstanding = 0;
    bool done = false;
  };

  std::size_t slots() const {  // requests per lane
    return static_cast<std::size_t>(slots_);
  }
  void post(int lane);
  Phase phase_of(int lane) const;
  void post_parts(int lane);     // to each rank its part
  void post_own_part(int lane);  // my part to each rank that gets the result
  void post_tree(int lane);
  void post_rows(int lane);    // up the tree
  void post_chain(int lane);   // to and from the ranks before and behind
  void post_blocks(int lane);  // to and from ranks that are a power of two away
  void send(int lane, int peer, const std::byte* base, Range elements);
  void receive(int lane, int peer, std::byte* base, Range elements);
  void send_bytes(int lane, int peer, const std::byte* from, std::int64_t bytes);
  void receive_bytes(int lane, int peer, std::byte* to, std::int64_t bytes);
  MPI_Request& new_request(int lane, int peer, int bytes_expected);
  int tag(int lane) const;

  void run(int lane);  // through all phases that wait for no message
  void finish_phase(int lane);
  void sum(int lane);
  void sum_rows(int lane);  // of the tree
  void add_own(int lane);   // to what the chain has summed
  void reduce_parts(const TensorView& parts, const TensorView& out) const;
  // Where the chain's result lies, and what of it a rank needs.
  std::byte* chained(int rank, Range& range) const;
  void keep_own_part(Range chunk);
  std::byte* staging(int lane, int row, std::int64_t elements) const;

  void check(std::size_t slot, const MPI_Status& status, int code) const;
  void finish();  // blocks until all messages have passed
  std::string text() const;
  Awaited awaited() const;
  bool awaits_first_from(int world_rank) const;
  void finish_and_release() override;
  void release();

  MpiGroup& group_;
  Group::Call call_;
  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  int block_ = StagingPool::none;
  std::array<Lane, max_lanes> lanes_{};
  int lanes_active_ = 0;
  int slots_ = 0, phases_ = 1;
  std::vector<MPI_Request> requests_;  // [lanes, slots]
  std::vector<int> peers_;             // of each request
  std::vector<int> expected_;          // bytes; -1: a send
};

}  // namespace trireme::comm
