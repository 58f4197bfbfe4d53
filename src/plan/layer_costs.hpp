// LayerCosts: what each layer of a model takes on one rank, read off a small meta engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/split.hpp"
#include "config/run_config.hpp"
#include "plan/plan.hpp"

namespace trireme::plan {

// Of one microbatch, on one rank of the tensor and context groups.
struct LayerCost {
  double forward = 0, backward = 0;  // seconds, messages of the layer included
  // Seconds that the first microbatch of a step takes less: it adds to no gradients.
  double first_saves = 0;
  double saved_bytes = 0;  // from forward to the end of backward
  double parameters = 0, expert_parameters = 0;
  double largest_unit = 0;  // parameters of a unit of sharding
};

struct LayerCosts {
  std::vector<LayerCost>
      layers;                 // the embedding's with the first, the head's with the last
  double working_bytes = 0;   // scratch, tables, recomputed activations: once a rank
  double boundary_bytes = 0;  // of a message from stage to stage
  // Of an element of a rank's share: held, and seconds of norm and update.
  double weight_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, update_seconds = 0;
};

// Runs two microbatches on a pipeline of one rank that has a stage for each layer, so
// that each action of its schedule is a layer. Tensor, context and expert ranks,
// microbatch, precision and recomputation are those of `config`; nothing is sharded or
// offloaded. A few layers stand for all (kept_layers.hpp). on.machine must be there.
LayerCosts measure_layers(const config::RunConfig& config, const PlannedDevice& on);

// What schedules with backwards in halves change.
struct HalvesCost {
  double weight_share = 0;  // of a backward: what only makes gradients of weights
  double saved_bytes = 0;   // of a layer, besides: inputs of the second half
};
// The layers of the model in_proportion() in each of its chunks: the same for every way
// to run a layer that does not recompute another part of the layers.
std::vector<Range> cut_for_halves(const config::RunConfig& config);
// cut: of cut_for_halves(); costs: of measure_layers() for the same.
HalvesCost measure_halves(const config::RunConfig& config, const std::vector<Range>& cut,
                          const LayerCosts& costs, const PlannedDevice& on);

}  // namespace trireme::plan
