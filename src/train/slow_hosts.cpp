// SlowHosts: counting steps of the slowest host.
// SPDX-License-Identifier: Apache-2.0
#include "train/slow_hosts.hpp"

#include "base/log.hpp"

namespace trireme::train {

std::optional<double> SlowHosts::add(const std::string& host, double factor) {
  if (host != host_ || factor <= 1 + least_share) {
    host_ = host;
    steps_ = 0;
    factors_ = 0;
  }
  if (factor <= 1 + least_share) return std::nullopt;
  ++steps_;
  factors_ += factor;
  if (steps_ < least_steps || !named_.insert(host).second) return std::nullopt;
  return factors_ / steps_;
}

void SlowHosts::agreed(const engine::StepTotals::Outcome& /*all*/) {
  const auto& slowest = totals_.slowest();
  if (!slowest) return;
  const std::string host = hosts_.of(slowest->rank);
  if (const auto factor = add(host, slowest->value))
    log::warn(
        "step {}  host {} is slow: in {} steps its slowest rank, now rank {}, took {} "
        "times as long for forward and backward as ranks with the same work",
        step_, host, least_steps, slowest->rank, fixed(*factor, 2));
}

}  // namespace trireme::train
