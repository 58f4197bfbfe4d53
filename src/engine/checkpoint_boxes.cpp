// The boxes of weights, moments, feedback, loss scale and model states.
// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint_boxes.hpp"

#include "engine/whole_tensors.hpp"

namespace trireme::engine {

std::vector<io::TensorBox> checkpoint_boxes(Engine& engine, comm::Mesh& mesh) {
  std::vector<io::TensorBox> boxes;
  const auto add = [&](const std::vector<optim::StateBox>& stored, bool until_update) {
    for (const auto& box : stored)
      boxes.push_back({name_of(box), box.named->whole, box.global_begin, box.data,
                       box.write, until_update, box.fill});
  };
  add(engine.store().state_boxes(), true);
  add(engine.store().feedback_boxes(), false);  // changes as gradients are reduced
  if (auto& scaler = engine.scaler())
    boxes.push_back(
        {"optimizer/loss_scale", {3}, {0}, scaler->state(), mesh.everyone().rank() == 0});
  if (auto& refused = engine.refused())
    boxes.push_back({"optimizer/refused_steps",
                     {1},
                     {0},
                     refused->state(),
                     mesh.everyone().rank() == 0});
  for (const StateTensor* state : engine.states()) {
    const bool first = state->named.owned && mesh.replicas().rank() == 0;
    boxes.push_back({"model/" + state->named.tensor, state->named.whole,
                     state->named.global_begin, state->value, first});
  }
  return boxes;
}

}  // namespace trireme::engine
