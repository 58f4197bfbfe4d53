// StepEnergy: what this rank counts of the energy of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/cuda_devices.hpp"
#include "base/energy_meter.hpp"
#include "base/node_energy.hpp"
#include "comm/world.hpp"
#include "engine/step_totals.hpp"

namespace trireme::train {

// Of several ranks with one GPU the first on the node counts it, and the first of all the
// node, so that the sum over ranks counts each once. A run on CPUs takes what processors
// count where the node has no counter of its own; one on GPUs does not, for that would
// leave out most of what the node takes.
class StepEnergy {
 public:
  // gpu: this rank's, if on_gpus. Collective over the ranks of the node.
  StepEnergy(comm::World& world, bool on_gpus, const CudaDevice& gpu);

  // A step begins: of the first, what was used before it does not count.
  void begin();
  // Since the last call, or since begin(): also what was used between steps. Not known
  // where this rank has something to count and no counter.
  engine::Joules take();

 private:
  struct Reading {
    std::optional<double> gpu, node;
  };
  Reading read();

  bool counts_gpu_, counts_node_;
  EnergyMeter gpu_;
  std::optional<NodeEnergy> node_;
  std::optional<Reading> last_;
};

}  // namespace trireme::train
