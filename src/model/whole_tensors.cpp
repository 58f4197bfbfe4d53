// The whole tensors of a model: their names and shapes, without memory.
// SPDX-License-Identifier: Apache-2.0
#include "model/whole_tensors.hpp"

#include <set>

#include "model/stage.hpp"

namespace trireme::model {

std::vector<WholeTensor> whole_tensors(const ModelConfig& model) {
  Stage stage({.model = model, .blocks = {0, model.layers}},
              parallel::TensorRegion::whole(), Device::meta());
  std::vector<WholeTensor> all;
  std::set<std::string> seen;  // a fused tensor has several boxes
  const auto add = [&](const NamedBox& named, bool learned) {
    if (seen.insert(named.tensor).second)
      all.push_back({named.tensor, named.whole, learned});
  };
  for (const Param* param : stage.parameters())
    for (const NamedBox& named : param->boxes) add(named, true);
  for (const StateTensor* state : stage.states()) add(state->named, false);
  return all;
}

}  // namespace trireme::model
