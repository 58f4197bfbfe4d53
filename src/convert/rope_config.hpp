// Rotary positions in a config.json: older and newer keys, and every kind of scaling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// Fills rope_theta and rope_scaling. positions: max_position_embeddings. fallback: the
// theta that the class would take, which is named where there is none, for taking it in
// silence ruins a model of an older class. Throws Error(bad_content).
void read_rope(const ConfigFields& fields, std::int64_t positions, double fallback,
               model::ModelConfig& model);

// Writes both the keys of older and of newer versions.
void write_rope(const model::ModelConfig& model, io::Json& json);

}  // namespace trireme::convert
