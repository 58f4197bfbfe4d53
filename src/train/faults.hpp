// Faults: debug.fault does its damage, so that tests see what becomes of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "comm/mesh.hpp"
#include "config/fault.hpp"
#include "engine/engine.hpp"
#include "engine/step.hpp"

namespace trireme::train {

class Faults : public engine::StepObserver {
 public:
  // text: debug.fault, checked; empty: nothing happens. rank: of this process in the
  // world. in_saves: is told of faults that strike in checkpoints from now on.
  Faults(const std::string& text, int rank, engine::Engine& engine, comm::Mesh& mesh,
         std::function<void(config::FaultKind)> in_saves);

  // What is due while the run starts, before this can be made ("hang@start@1"): of kinds
  // that end or stop a rank.
  static void at_start(const std::string& text, int rank);
  // What is due before a round of asking the reference model; they count from 1.
  void before_reference(std::int64_t round) const;
  // What is due before step `step`.
  void before_step(std::int64_t step);
  void enter(engine::StepPhase phase, std::int64_t step) override;
  // None in a step that computed() changes, on whichever rank.
  std::optional<kernels::StepLimits> limits(std::int64_t step) override;
  // What is due in the numbers that the step has computed.
  void computed(engine::StepTotals::Outcome& mine) override;
  // The same again: such faults stand for data. flips_gradient() is one of a device.
  void computed_again(engine::StepTotals::Outcome& mine) override { computed(mine); }
  bool flips_gradient() override {
    return due(step_) && fault_->kind == config::FaultKind::flip_gradient;
  }

 private:
  bool due(std::int64_t step) const { return fault_ && fault_->step == step; }
  void flip_bit();

  std::optional<config::Fault> fault_;  // of this rank
  engine::Engine& engine_;
  comm::Mesh& mesh_;
  std::function<void(config::FaultKind)> in_saves_;
  std::int64_t step_ = 0;
  std::int64_t changed_step_ = 0;  // in which some rank's numbers are changed; 0: none
};

}  // namespace trireme::train
