// The whole tensors of a model: their names and shapes, without memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/model_config.hpp"

namespace trireme::model {

struct WholeTensor {
  std::string name;
  Shape shape;
  bool learned = true;  // else a state that training moves by other rules
};

// In the order of forward, read off the model itself, which is built on the meta device.
// A tied head has no tensor of its own.
std::vector<WholeTensor> whole_tensors(const ModelConfig& model);

}  // namespace trireme::model
