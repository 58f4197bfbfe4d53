// What a checkpoint holds of one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/mesh.hpp"
#include "engine/engine.hpp"
#include "io/checkpoint.hpp"

namespace trireme::engine {

// All that a checkpoint holds of this rank: its shares of weights and moments, and the
// tensors that are not trained by gradients. On meta: the same without memory. With
// fp16: the scaler of the loss.
std::vector<io::TensorBox> checkpoint_boxes(Engine& engine, comm::Mesh& mesh);

}  // namespace trireme::engine
