// LoadedModel: binding and reading weights.
// SPDX-License-Identifier: Apache-2.0
#include "infer/loaded_model.hpp"

#include "base/split.hpp"

namespace trireme::infer {
namespace {

model::StageConfig stage_config(const model::ModelConfig& config, DType compute,
                                std::int64_t positions, StagePart part) {
  return {.model = config,
          .blocks = split_range(config.layers, part.stages, part.stage),
          .first = part.first(),
          .last = part.last(),
          .ends_together = part.stages == 1,
          .dtype = compute,
          .z_loss = 0,
          .positions = positions};
}

}  // namespace

LoadedModel::LoadedModel(const model::ModelConfig& config, DType compute,
                         comm::Group& tensor, std::int64_t positions,
                         const io::TensorSource& source, Device device, StagePart part)
    : device_(device),
      part_(part),
      region_(tensor, false),
      stage_(stage_config(config, compute, positions, part), region_, device) {
  for (Param* param : stage_.parameters()) {
    weights_.emplace_back(device, compute, param->shape, MemoryClass::weights,
                          param->name);
    param->value = weights_.back().view();
    for (const NamedBox& named : param->boxes) {
      TensorView box = param->value.rows(named.local_begin[0], named.extent[0]);
      if (param->shape.rank() == 2)
        box = box.columns(named.local_begin[1], named.extent[1]);
      source.read("model/" + named.tensor, named.whole, named.global_begin, box);
    }
  }
  for (const StateTensor* state : stage_.states()) {
    source.read("model/" + state->named.tensor, state->named.whole,
                state->named.global_begin, state->value);
  }
}

}  // namespace trireme::infer
