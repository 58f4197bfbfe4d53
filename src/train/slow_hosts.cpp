// SlowHosts: counting steps of the slowest hosts.
// SPDX-License-Identifier: Apache-2.0
#include "train/slow_hosts.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace trireme::train {

std::vector<SlowHosts::Slow> slowest_hosts(const comm::HostTable& hosts,
                                           const engine::StepTotals& totals) {
  std::vector<SlowHosts::Slow> all;
  for (const engine::RankedValue& rank :
       totals.slowest_of_hosts(engine::StepTotals::host_slots)) {
    const std::string host = hosts.host(rank.rank);
    const bool is_new = std::none_of(all.begin(), all.end(),
                                     [&](const auto& o) { return o.host == host; });
    if (is_new && all.size() < SlowHosts::most_hosts) all.push_back({host, rank});
  }
  return all;
}

std::vector<SlowHosts::Slow> SlowHosts::add(const std::vector<Slow>& slowest,
                                            const std::function<bool(int)>& hidden) {
  std::map<std::string, Count> before = std::move(counts_);
  counts_.clear();
  std::vector<Slow> named;
  for (const Slow& slow : slowest) {
    if (slow.rank.value <= 1 + least_share) continue;
    Count& count = counts_[slow.host] = before[slow.host];
    ++count.steps;
    count.factors += slow.rank.value;
    count.rank = slow.rank.rank;
    if (count.steps >= least_steps && named_.insert(slow.host).second)
      named.push_back({slow.host, {count.factors / count.steps, count.rank}});
  }
  // A slower host stood in the place of these.
  for (const auto& [host, count] : before)
    if (count.steps > 0 && !counts_.contains(host) &&
        std::none_of(slowest.begin(), slowest.end(),
                     [&, &name = host](const Slow& s) { return s.host == name; }) &&
        hidden(count.rank))
      counts_[host] = count;
  return named;
}

void SlowHosts::agreed(const engine::StepTotals::Outcome& /*all*/) {
  const std::vector<Slow> slowest = slowest_hosts(hosts_, totals_);
  const auto hidden = [&](int rank) {
    return std::any_of(slowest.begin(), slowest.end(), [&](const Slow& slow) {
      return totals_.share_a_slot(hosts_.number_of(rank),
                                  hosts_.number_of(slow.rank.rank));
    });
  };
  for (const Slow& slow : add(slowest, hidden))
    log::warn(
        "step {}  host {} is slow: in {} steps its slowest rank, now rank {}, took {} "
        "times as long for forward and backward as ranks with the same work",
        step_, slow.host, least_steps, slow.rank.rank, fixed(slow.rank.value, 2));
}

}  // namespace trireme::train
