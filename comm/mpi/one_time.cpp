// Work that first ranks do before the others go on, with a time limit.
// SPDX-License-Identifier: Apache-2.0
#include "comm/one_time.hpp"

#include <exception>
#include <limits>
#include <string>

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
                            const std::function<void()>& work) {
  const Deadline deadline(world.state(), seconds);
  world.agree([&] {
    if (world.rank() == 0) work();
  });
}

// Rank 0 keeps its time-out: a rank that does not come is late for it, not for the work.
std::string broadcast_from_first(World& world, WaitLimit limit,
                                 const std::function<std::string()>& work) {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::string text;
  std::exception_ptr error;
  if (world.rank() == 0) try {
      text = work();
    } catch (...) {
      error = std::current_exception();
    }
  {
    const bool waits_for_ever = limit == WaitLimit::none && world.rank() > 0;
    const Deadline deadline(world.state(), waits_for_ever ? never : 0);
    text = world.broadcast(text);
  }
  world.agree([&] {
    if (error) std::rethrow_exception(error);
  });
  return text;
}

}  // namespace trireme::comm
