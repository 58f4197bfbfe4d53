// Keys of the deck: rotary positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of the scaling of rotary positions.
template <auto member>
inline constexpr auto of_rope =
    sets<&RunConfig::model, &model::ModelConfig::rope_scaling, member>;

struct RopeKeys : Section {
  constexpr RopeKeys() : Section("model.rope") {}

  Choice<kernels::RopeScalingKind> scaling{
      *this,
      "scaling",
      "\"none\"",
      {{"none", kernels::RopeScalingKind::none},
       {"linear", kernels::RopeScalingKind::linear},
       {"dynamic", kernels::RopeScalingKind::dynamic},
       {"llama3", kernels::RopeScalingKind::llama3},
       {"yarn", kernels::RopeScalingKind::yarn},
       {"longrope", kernels::RopeScalingKind::longrope}},
      "How rotary positions reach beyond the length that the model was first trained on.",
      of_rope<&kernels::RopeScaling::kind>};
  Real factor{*this,
              "factor",
              "",
              "1.0",
              above(0, 1e6),
              "How many times longer.",
              of_rope<&kernels::RopeScaling::factor>};
  Real low_turns{*this,
                 "low_turns",
                 "",
                 "1.0",
                 above(0, 1e6),
                 "llama3: pairs that turn less often within model.rope.original are "
                 "divided by the factor (low_freq_factor).",
                 of_rope<&kernels::RopeScaling::low>};
  Real high_turns{
      *this,
      "high_turns",
      "",
      "4.0",
      above(0, 1e6),
      "llama3: pairs that turn more often stay as they are (high_freq_factor).",
      of_rope<&kernels::RopeScaling::high>};
  Real original{*this,
                "original",
                "tokens",
                "0.0",
                within(0, 1e9),
                "dynamic, llama3, yarn and longrope: the length that the model was first "
                "trained on (original_max_position_embeddings; of dynamic "
                "max_position_embeddings).",
                of_rope<&kernels::RopeScaling::original>};
  Real fast_turns{*this,
                  "fast_turns",
                  "",
                  "32.0",
                  above(0, 1e6),
                  "yarn: pairs that turn more often stay as they are (beta_fast).",
                  of_rope<&kernels::RopeScaling::fast>};
  Real slow_turns{
      *this,
      "slow_turns",
      "",
      "1.0",
      above(0, 1e6),
      "yarn: pairs that turn less often are divided by the factor (beta_slow).",
      of_rope<&kernels::RopeScaling::slow>};
  Boolean whole_pairs{*this, "whole_pairs", "true",
                      "yarn: the range between those begins and ends at whole pairs "
                      "(truncate).",
                      of_rope<&kernels::RopeScaling::whole_pairs>};
  Real attention_factor{
      *this,
      "attention_factor",
      "",
      "1.0",
      above(0, 1e3),
      "Factor of cosines and sines; of yarn usually 0.1 ln(factor) + 1, of longrope "
      "sqrt(1 + ln(factor) / ln(original)).",
      of_rope<&kernels::RopeScaling::attention_factor>};
  Reals short_divisors{
      *this,
      "short_divisors",
      "",
      "[]",
      above(0, 1e6),
      "longrope: what the frequency of each pair is divided by, in sequences of at most "
      "model.rope.original tokens (short_factor).",
      of_rope<&kernels::RopeScaling::short_divisors>};
  Reals long_divisors{*this,
                      "long_divisors",
                      "",
                      "[]",
                      above(0, 1e6),
                      "longrope: the same in longer sequences (long_factor).",
                      of_rope<&kernels::RopeScaling::long_divisors>};
  Integer width{
      *this,
      "width",
      "",
      "0",
      within(0, 1 << 16),
      "Numbers of each head that turn, from its first on (partial_rotary_factor "
      "times the head's width); 0: all.",
      sets<&RunConfig::model, &model::ModelConfig::rope_width>};
  Integers layers{*this,
                  "layers",
                  "",
                  "[]",
                  within(0, 1),
                  "For each layer 1 if its heads turn, 0 if it has no positions "
                  "(no_rope_layers); empty: all turn.",
                  sets<&RunConfig::model, &model::ModelConfig::rope_layers>};
  Real sliding_theta{*this,
                     "sliding_theta",
                     "",
                     "0.0",
                     within(0, 1e12),
                     "Base of the positions in layers with a window, which then have no "
                     "scaling; 0: they "
                     "turn as the other layers do.",
                     sets<&RunConfig::model, &model::ModelConfig::sliding_rope_theta>};
};

namespace key {
inline constexpr RopeKeys rope;
}  // namespace key

}  // namespace trireme::config
