// BenchedStep: a training step to be timed, without a data loader or a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/mesh.hpp"
#include "engine/engine.hpp"
#include "launch/compute_device.hpp"

namespace trireme::app {

// Synthetic tokens and new weights. Rows are whole texts, and a batch of a ramp is that
// of its end. Collective over the world.
class BenchedStep {
 public:
  BenchedStep(comm::World& world, const config::RunConfig& config,
              const launch::ComputeDevice& on);

  // Seconds of one whole step: forward, backward, reduction, norm, update; of the rank
  // that took longest.
  double run();
  void drop_graphs() { engine_.drop_graphs(); }
  double tokens() const;

 private:
  comm::World& world_;
  config::RunConfig config_;
  comm::Mesh mesh_;
  engine::Engine engine_;
  Buffer ids_;
  engine::Batch batch_;
  engine::StepObserver nobody_;
};

// What of the run is not in the step that is timed, in words; empty: nothing.
std::string timed_without(const config::RunConfig& config);

}  // namespace trireme::app
