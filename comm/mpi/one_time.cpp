// Work that first ranks do before the others go on, with a time limit.
// SPDX-License-Identifier: Apache-2.0
#include "comm/one_time.hpp"

#include "comm/mpi/state.hpp"

namespace trireme::comm {
namespace {

// The world's time-out, changed for the life of this object.
class Deadline {
 public:
  Deadline(WorldState& state, double seconds)
      : state_(state), before_(state.timeout_seconds) {
    if (seconds > 0) state_.timeout_seconds = seconds;
  }
  ~Deadline() { state_.timeout_seconds = before_; }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  WorldState& state_;
  double before_;
};

}  // namespace

void first_rank_then_others(World& world, double seconds,
                            const std::function<void()>& work, Worker worker) {
  const Deadline deadline(world.state(), seconds);
  const int rank = worker == Worker::first_rank ? world.rank() : world.rank_on_node();
  world.agree([&] {
    if (rank == 0) work();
  });
}

}  // namespace trireme::comm
