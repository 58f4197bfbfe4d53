// LoadedModel: binding and reading weights.
// SPDX-License-Identifier: Apache-2.0
#include "infer/loaded_model.hpp"

#include "base/split.hpp"

namespace trireme::infer {
namespace {

model::StageConfig stage_config(const model::ModelConfig& config, DType compute,
                                std::int64_t positions, StagePart part) {
  return {.model = config,
          .blocks = part.blocks.count() > 0
                        ? part.blocks
                        : split_range(config.layers, part.stages, part.stage),
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
                         const io::TensorSource& source, Device device, StagePart part,
                         const Placement* placement)
    : device_(device),
      part_(part),
      region_(tensor, false),
      stage_(stage_config(config, compute, positions, part), region_, device) {
  if (placement == nullptr || device.is_meta()) {
    place_all(source);
  } else {
    const auto stage = static_cast<std::size_t>(part.stage);
    std::map<std::string, Tier> tiers;
    for (std::size_t i = 0; i < placement->pieces.size(); ++i)
      for (const std::string& tensor_name : placement->pieces[i].tensors)
        tiers[tensor_name] = placement->stages[stage].of_pieces[i];
    placed_ = std::make_unique<PlacedWeights>(stage_, tiers, source, device, compute);
    stage_.attach(*placed_);
  }
  if (device.is_meta()) return;
  for (const StateTensor* state : stage_.states()) {
    source.read("model/" + state->named.tensor, state->named.whole,
                state->named.global_begin, state->value);
  }
}

void LoadedModel::place_all(const io::TensorSource& source) {
  for (Param* param : stage_.parameters()) {
    weights_.emplace_back(device_, dtype(), param->shape, MemoryClass::weights,
                          param->name);
    param->value = weights_.back().view();
    if (!device_.is_meta()) read_param(*param, param->value, source);
  }
}

}  // namespace trireme::infer
