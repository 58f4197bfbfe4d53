// LoadedModel: binding and reading weights.
// SPDX-License-Identifier: Apache-2.0
#include "infer/loaded_model.hpp"

#include <utility>

#include "base/split.hpp"
#include "io/param_codes.hpp"

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
                         Held held, const Placement* placement)
    : device_(device),
      part_(part),
      region_(tensor, false),
      stage_(stage_config(config, compute, positions, part), region_, device),
      codes_(in_place_, device, compute, model::CodeProducts::yes) {
  if (placement == nullptr || device.is_meta()) {
    read_all(source, held);
  } else {
    require(held == Held::numbers || !device.is_cuda(),
            "weights that are placed on a GPU cannot be kept as codes");
    const auto stage = static_cast<std::size_t>(part.stage);
    std::map<std::string, Tier> tiers;
    for (std::size_t i = 0; i < placement->pieces.size(); ++i)
      for (const std::string& tensor_name : placement->pieces[i].tensors)
        tiers[tensor_name] = placement->stages[stage].of_pieces[i];
    placed_ = std::make_unique<PlacedWeights>(stage_, tiers, source, device, compute,
                                              held == Held::codes ? &codes_ : nullptr);
    stage_.attach(*placed_);
  }
  if (device.is_meta()) return;
  for (const StateTensor* state : stage_.states()) {
    source.read("model/" + state->named.tensor, state->named.whole,
                state->named.global_begin, state->value);
  }
}

void LoadedModel::read_all(const io::TensorSource& source, Held held) {
  int number = 0;
  for (const ParamModule& module : stage_.modules()) {
    for (Param* param : module.params)
      if (param->value.empty()) read(*param, number, source, held);
    ++number;
  }
  if (codes_.empty()) return;
  codes_.allocate();
  stage_.attach(codes_);
}

// A Param of two modules is read once, with the first of them; none such has codes.
void LoadedModel::read(Param& param, int module, const io::TensorSource& source,
                       Held held) {
  const std::size_t code_bytes =
      held == Held::codes ? io::kept_code_bytes(source, param) : 0;
  if (code_bytes > 0) {
    std::vector<PlacedCodes> codes;
    if (!device_.is_meta())
      codes = io::read_param_codes(dynamic_cast<const io::CodeSource&>(source), param,
                                   device_);
    codes_.add(module, param, std::move(codes), code_bytes);
    return;
  }
  weights_.emplace_back(device_, dtype(), param.shape, MemoryClass::weights, param.name);
  param.value = weights_.back().view();
  if (!device_.is_meta()) io::read_param(source, param, param.value);
}

std::size_t LoadedModel::number_bytes() const {
  std::size_t sum = 0;
  for (const Buffer& weight : weights_) sum += weight.bytes();
  return sum;
}

}  // namespace trireme::infer
