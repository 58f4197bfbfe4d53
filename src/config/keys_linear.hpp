// Keys of the deck: linear attention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of linear attention.
template <auto member>
inline constexpr auto of_linear = sets<&RunConfig::model, &model::ModelConfig::attention,
                                       &model::AttentionSettings::linear, member>;

struct LinearKeys : Section {
  constexpr LinearKeys() : Section("model.linear") {}

  Integer key_heads{*this,
                    "key_heads",
                    "",
                    "0",
                    within(0, 1 << 20),
                    "Heads of queries and keys of layers with linear attention "
                    "(linear_num_key_heads).",
                    of_linear<&model::LinearSettings::key_heads>};
  Integer value_heads{*this,
                      "value_heads",
                      "",
                      "0",
                      within(0, 1 << 20),
                      "Heads of values, which share the key heads "
                      "(linear_num_value_heads).",
                      of_linear<&model::LinearSettings::value_heads>};
  Integer key_width{*this,
                    "key_width",
                    "",
                    "128",
                    within(1, 1 << 12),
                    "Width of a head's keys (linear_key_head_dim).",
                    of_linear<&model::LinearSettings::key_width>};
  Integer value_width{*this,
                      "value_width",
                      "",
                      "128",
                      within(1, 1 << 12),
                      "Width of a head's values (linear_value_head_dim).",
                      of_linear<&model::LinearSettings::value_width>};
  Integer taps{*this,
               "taps",
               "tokens",
               "4",
               within(1, model::LinearSettings::most_taps),
               "Positions that the convolution before the rule sees, the token's own the "
               "last (linear_conv_kernel_dim).",
               of_linear<&model::LinearSettings::taps>};
};

namespace key {
inline constexpr LinearKeys linear;
}  // namespace key

}  // namespace trireme::config
