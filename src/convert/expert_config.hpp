// Experts in a config.json: how many, how wide, in which layers, and how they are chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/hugging_face.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// m.moe of a model whose sizes have been read. Throws Error(bad_content).
void read_experts(const ConfigFields& fields, const model::HuggingFaceRow& row,
                  model::ModelConfig& m);
// The same keys of a config.json.
void write_experts(const model::ModelConfig& m, const model::HuggingFaceRow& row,
                   io::Json& json);
// Throws Error(bad_content) where the class cannot say what the model does.
void require_expressible_experts(const model::ModelConfig& m,
                                 const model::HuggingFaceRow& row);
// Whether experts of two models with one row do the same with each token.
bool same_experts(const model::ModelConfig& a, const model::ModelConfig& b);

}  // namespace trireme::convert
