// Latent attention in a config.json: the widths of its small vectors and of its heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/config_fields.hpp"
#include "model/hugging_face.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// m.attention.latent and the width of heads, of a class that has latent attention: first
// the widths, and behind read_rope(), which asks for them, what depends on its scaling.
// Both throw Error(bad_content).
void read_latent_widths(const ConfigFields& fields, const model::HuggingFaceRow& row,
                        model::ModelConfig& m);
void read_latent_positions(const ConfigFields& fields, const model::HuggingFaceRow& row,
                           model::ModelConfig& m);

// Throws Error(bad_content) where the class computes another function.
void require_expressible_latent(const model::ModelConfig& m,
                                const model::HuggingFaceRow& row);

// The same keys of a config.json.
void write_latent(const model::ModelConfig& m, const model::HuggingFaceRow& row,
                  io::Json& json);
// Whether latent attention of two models with one row has the same form.
bool same_latent(const model::ModelConfig& a, const model::ModelConfig& b);

}  // namespace trireme::convert
