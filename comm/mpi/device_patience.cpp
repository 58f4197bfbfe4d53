// How a rank waits for its GPU, which may wait for other ranks.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/device_patience.hpp"

#include <memory>
#include <optional>

#include "base/device_wait.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

int users = 0;

// One wait. Patience begins anew whenever a collective starts or ends.
class Wait {
 public:
  explicit Wait(WorldState& state) : state_(state) {}

  void idle() {
    state_.progress();
    const std::int64_t now = trace().progress();
    if (!spin_wait_ || now != seen_) {
      spin_wait_.reset();
      spin_wait_.emplace(state_, [this] {
        return Awaited{.group = "world",
                       .operation = "wait for this rank's GPU",
                       .tensor = "",
                       .sequence = state_.sequence,
                       .members = state_.ranks,
                       .absent = {}};
      });
      seen_ = now;
    }
    spin_wait_->idle();
  }

 private:
  WorldState& state_;
  std::optional<SpinWait> spin_wait_;
  std::int64_t seen_ = 0;
};

}  // namespace

DevicePatience::DevicePatience(WorldState& state) {
  if (users++ > 0) return;
  set_device_wait(
      [&state] { return [wait = std::make_shared<Wait>(state)] { wait->idle(); }; });
}

DevicePatience::~DevicePatience() {
  if (--users == 0) set_device_wait({});
}

}  // namespace trireme::comm
