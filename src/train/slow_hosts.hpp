// SlowHosts: names a host that keeps the others waiting for many steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "comm/host_table.hpp"
#include "engine/step.hpp"
#include "engine/step_totals.hpp"

namespace trireme::train {

// A host is slow when in so many steps, one after the other, the slowest rank of all ran
// on it and took longer than ranks with the same work by more than this share. A step in
// which another host is slowest, or none is slow, starts the count anew: what only one
// step suffers from (a disk, a page that is moved, a clock that has not settled) is no
// reason to take a node out.
class SlowHosts : public engine::StepObserver {
 public:
  static constexpr double least_share = 0.15;
  static constexpr int least_steps = 20;

  // On rank 0. Both outlive this.
  SlowHosts(const comm::HostTable& hosts, const engine::StepTotals& totals)
      : hosts_(hosts), totals_(totals) {}

  void enter(engine::StepPhase, std::int64_t step) override { step_ = step; }
  void agreed(const engine::StepTotals::Outcome& all) override;

  // Of step after step: the slowest rank's host, and how many times as long as others
  // with the same work the rank took. The mean of that over the count's steps, when the
  // host has become slow; each host once.
  std::optional<double> add(const std::string& host, double factor);

 private:
  const comm::HostTable& hosts_;
  const engine::StepTotals& totals_;
  std::int64_t step_ = 0;
  std::string host_;    // whose steps are counted
  int steps_ = 0;       // so far
  double factors_ = 0;  // their sum
  std::set<std::string> named_;
};

}  // namespace trireme::train
