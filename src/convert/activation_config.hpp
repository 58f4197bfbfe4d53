// Activations in a config.json, by the names of transformers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/hugging_face_row.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// Sets the model's own activation where it is not the architecture's. Throws
// Error(bad_content) for one that this program does not compute.
void read_activation(const ConfigFields& fields, const model::HuggingFaceRow& row,
                     model::ModelConfig& m);

// The name of the model's activation for this class; empty: its class cannot have it.
std::string_view activation_name(const model::HuggingFaceRow& row,
                                 const model::ModelConfig& m);

}  // namespace trireme::convert
