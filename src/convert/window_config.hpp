// Sliding windows of attention in a config.json, read and written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/hugging_face.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// Sets window and layer_types of a model of m.layers layers. Throws Error(bad_content)
// that names file, key and value for what is wrong, or what the family's class does not
// read.
void read_window(const ConfigFields& fields, const model::HuggingFaceRow& row,
                 model::ModelConfig& m);

// Writes what read_window() reads; can_say_window() holds.
void write_window(const model::ModelConfig& m, const model::HuggingFaceRow& row,
                  io::Json& json);

// Whether the family's class has windows such as this model's.
bool can_say_window(const model::HuggingFaceRow& row, const model::ModelConfig& m);

}  // namespace trireme::convert
