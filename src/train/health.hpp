// Health: whether the run makes progress, its steps are sound, and its replicas agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "engine/engine.hpp"
#include "engine/step.hpp"
#include "io/checkpoint.hpp"
#include "io/metrics.hpp"
#include "train/progress.hpp"
#include "train/step_guard.hpp"

namespace trireme::train {

class Health : public engine::StepObserver {
 public:
  // All outlive this.
  Health(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
         engine::Engine& engine, comm::Watchdog& watchdog, const Progress& progress);

  // Reads the steps before a restart from the metrics: the guard judges as if the run had
  // not been broken. Collective over the world.
  void remember_steps();
  // Tells the watchdog what the run does now.
  void beat(const char* phase);
  // After a step: compares replicas when that is due, and, where it ever is, before
  // anything is saved, so that no restart goes on from what nobody has compared.
  // Collective over the world.
  void check_replicas(bool saves);

  std::optional<kernels::StepLimits> limits(std::int64_t) override {
    return guard_.limits();
  }
  // Steps that are computed twice: every rerun_every-th, and those that accepts() will
  // not find sound.
  bool runs_twice(std::int64_t step) override;
  bool doubts(const engine::StepResult& result) override;
  // Throws Error(corruption), agreed on, where a rank's runs differ.
  void ran_twice(std::int64_t step, const engine::StepDifference& difference) override;
  // Throws Error(diverged), agreed on, for a step that ends the run.
  bool accepts(const engine::StepResult& result, double own_loss) override;

 private:
  void warn_of_missing_steps(const std::string& path,
                             const std::vector<io::StepLine>& steps) const;
  bool has_replicas();
  std::string find_culprits(double own_loss);
  std::vector<io::TensorBox> replicated_boxes();

  comm::World& world_;
  comm::Mesh& mesh_;
  const config::RunConfig& config_;
  engine::Engine& engine_;
  comm::Watchdog& watchdog_;
  const Progress& progress_;
  StepGuard guard_;
  std::int64_t same_twice_ = 0;  // the last step of which a second run gave the same
};

}  // namespace trireme::train
