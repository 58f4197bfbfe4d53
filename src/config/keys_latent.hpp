// Keys of the deck: latent attention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of latent attention.
template <auto member>
inline constexpr auto of_latent = sets<&RunConfig::model, &model::ModelConfig::attention,
                                       &model::AttentionSettings::latent, member>;

struct LatentKeys : Section {
  constexpr LatentKeys() : Section("model.latent") {}

  Integer width{*this,
                "width",
                "",
                "0",
                within(0, 1 << 20),
                "Width of the vector that a token's keys and values are made of "
                "(kv_lora_rank).",
                of_latent<&model::LatentSettings::width>};
  Integer query_width{*this,
                      "query_width",
                      "",
                      "0",
                      within(0, 1 << 20),
                      "Width of the vector that queries are made of (q_lora_rank); 0: "
                      "of the model's at once.",
                      of_latent<&model::LatentSettings::query_width>};
  Integer value_width{*this,
                      "value_width",
                      "",
                      "0",
                      within(0, 1 << 16),
                      "Width of a head's values (v_head_dim); 0: model.head_width.",
                      of_latent<&model::LatentSettings::value_width>};
  Real score_factor{
      *this,
      "score_factor",
      "",
      "1.0",
      above(0, 1e6),
      "Scores are this times the product of query and key over the root of their width; "
      "with yarn DeepSeek's is (0.1 mscale_all_dim ln(factor) + 1)^2.",
      of_latent<&model::LatentSettings::score_factor>};
  Boolean neighbours{
      *this, "neighbours", "true",
      "Whether pairs of neighbours turn (rope_interleave); false: pairs of a number of "
      "the first half and one of the second.",
      of_latent<&model::LatentSettings::neighbours>};
};

namespace key {
inline constexpr LatentKeys latent;
}  // namespace key

}  // namespace trireme::config
