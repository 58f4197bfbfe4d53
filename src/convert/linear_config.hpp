// Linear attention in a config.json: which layers have it, and its heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/hugging_face.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// m.attention.linear and m.layer_types, of a class that has linear attention. Throws
// Error(bad_content).
void read_linear(const ConfigFields& fields, model::ModelConfig& m);
// The same keys of a config.json.
void write_linear(const model::ModelConfig& m, io::Json& json);
// Whether linear attention of two models with one row has the same form, in the same
// layers.
bool same_linear(const model::ModelConfig& a, const model::ModelConfig& b);

}  // namespace trireme::convert
