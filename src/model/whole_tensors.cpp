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
  std::set<std::string> seen;  // a fused tensor has several slabs
  const auto add = [&](const Slab& slab, bool learned) {
    if (seen.insert(slab.tensor).second)
      all.push_back({slab.tensor, slab.whole, learned});
  };
  for (const Param* param : stage.parameters())
    for (const Slab& slab : param->slabs) add(slab, true);
  for (const StateTensor* state : stage.states()) add(state->slab, false);
  return all;
}

}  // namespace trireme::model
