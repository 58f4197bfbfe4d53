// Rotary positions in a config.json: older and newer keys, and every kind of scaling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/hugging_face.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// Sets everything about rotary positions of a model whose sizes are known; its sequence
// is max_position_embeddings. The base that the class would take is named where there is
// none, for taking it in silence ruins a model of an older class. Throws
// Error(bad_content).
void read_rope(const ConfigFields& fields, const model::HuggingFaceRow& row,
               model::ModelConfig& model);

// Writes both the keys of older and of newer versions; can_say_rope() holds.
void write_rope(const model::ModelConfig& model, const model::HuggingFaceRow& row,
                io::Json& json);

// Whether the family's class turns heads as this model does.
bool can_say_rope(const model::HuggingFaceRow& row, const model::ModelConfig& model);
// Throws Error(bad_content) for a setting that it does not have.
void require_expressible_rope(const model::ModelConfig& model,
                              const model::HuggingFaceRow& row);

}  // namespace trireme::convert
