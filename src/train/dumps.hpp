// Dumps: files for the debugger of a run, of the gradients and samples of single steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "engine/engine.hpp"
#include "engine/step.hpp"
#include "io/sample_source.hpp"
#include "train/sample_turns.hpp"

namespace trireme::train {

class Dumps : public engine::StepObserver {
 public:
  // All outlive this.
  Dumps(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
        engine::Engine& engine, const io::SampleSource& source)
      : world_(world),
        mesh_(mesh),
        config_(config),
        engine_(engine),
        source_(source),
        order_(source, config.run.seed) {}

  // debug.dump_samples: which samples step `step` is made of. Collective over the world.
  void write_samples(std::int64_t step);
  void enter(engine::StepPhase, std::int64_t step) override { step_ = step; }
  // None in a step whose gradients are written.
  std::optional<kernels::StepLimits> limits(std::int64_t step) override;
  // debug.dump_gradients: every tensor's unclipped gradient, whole, by name.
  void gradients_ready(double loss_scale) override;

 private:
  comm::World& world_;
  comm::Mesh& mesh_;
  const config::RunConfig& config_;
  engine::Engine& engine_;
  const io::SampleSource& source_;
  SampleOrder order_;  // kept between steps: a blend replays turns from place 0
  std::int64_t step_ = 0;
};

}  // namespace trireme::train
