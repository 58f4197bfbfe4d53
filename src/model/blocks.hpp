// From a model's sizes and its architecture's row to what modules are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/model_config.hpp"
#include "nn/block.hpp"
#include "nn/embedding.hpp"
#include "nn/head.hpp"

namespace trireme::model {

nn::EmbeddingConfig embedding_config(const ModelConfig& model);
nn::BlockConfig block_config(const ModelConfig& model, std::int64_t layer);
nn::HeadConfig head_config(const ModelConfig& model, double z_loss);

}  // namespace trireme::model
