// SlowHosts: names hosts that keep the others waiting for many steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/host_table.hpp"
#include "engine/step.hpp"
#include "engine/step_totals.hpp"

namespace trireme::train {

// A host is slow when in so many steps, one after the other, its slowest rank was among
// the slowest of all hosts and took longer than ranks with the same work by more than
// this share. A step in which it was not starts its count anew: what only one step
// suffers from (a disk, a page that is moved, a clock that has not settled) is no reason
// to take a node out.
class SlowHosts : public engine::StepObserver {
 public:
  static constexpr double least_share = 0.15;
  static constexpr int least_steps = 20;
  static constexpr std::size_t most_hosts = 4;  // in a step

  // On rank 0. Both outlive this.
  SlowHosts(const comm::HostTable& hosts, const engine::StepTotals& totals)
      : hosts_(hosts), totals_(totals) {}

  void enter(engine::StepPhase, std::int64_t step) override { step_ = step; }
  void agreed(const engine::StepTotals::Outcome& all) override;

  // Of a host in a step: its slowest rank, and how many times as long as others with the
  // same work that took.
  struct Slow {
    std::string host;
    engine::RankedValue rank;
  };
  // Of step after step: the slowest hosts. Returns those that have become slow, each host
  // once, with the mean over the count's steps. hidden: of hosts that are not among them,
  // whether it is not known how long they took.
  std::vector<Slow> add(const std::vector<Slow>& slowest,
                        const std::function<bool(int rank)>& hidden);

 private:
  struct Count {
    int steps = 0;
    double factors = 0;  // their sum
    int rank = 0;        // the last
  };

  const comm::HostTable& hosts_;
  const engine::StepTotals& totals_;
  std::int64_t step_ = 0;
  std::map<std::string, Count> counts_;  // of hosts that were slow in the last step
  std::set<std::string> named_;
};

// The slowest hosts of a step, slowest first, each once.
std::vector<SlowHosts::Slow> slowest_hosts(const comm::HostTable& hosts,
                                           const engine::StepTotals& totals);

}  // namespace trireme::train
