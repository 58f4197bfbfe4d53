// Rules about rotary positions.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {

// Which heads turn, and how much of them.
void ModelRules::rope_layer_rules() {
  const auto& m = config_.model;
  const bool learned = !m.rotary();
  for (const io::DeckKey& each : {KeyRef(key::rope.width), KeyRef(key::rope.layers)})
    meaningless(each, key::model.architecture, learned,
                ", whose positions are learned: remove it");
  rule(
      {key::rope.width, key::model.head_width, key::model.hidden, key::model.heads},
      [&] {
        return m.rope_width == 0 || (m.own_head_width == 0 && m.hidden % m.heads != 0) ||
               (m.rope_width % 2 == 0 && m.rope_width <= m.head_width());
      },
      key::rope.width,
      [&] {
        return format(
            " must be even and at most the width of a head, {}: write an even "
            "number, or 0 for all",
            m.head_width());
      });
  rule(
      {key::rope.layers, key::model.layers},
      m.rope_layers.empty() || m.rope_layers.size() == static_cast<std::size_t>(m.layers),
      key::rope.layers, " does not have as many numbers as there are layers, ",
      key::model.layers, ": write 1 or 0 for each layer");
  meaningless(key::rope.sliding_theta, key::model.window, m.window == 0,
              ": remove it, or write how many positions the layers with a window see");
}

// Of longrope, which has a divisor for each pair.
void ModelRules::longrope_rules() {
  const auto& m = config_.model;
  const auto& rope = m.rope_scaling;
  const bool longrope = rope.kind == kernels::RopeScalingKind::longrope;
  const auto lists = [&](const io::DeckKey& key, const std::vector<double>& divisors) {
    meaningless(key, key::rope.scaling, !longrope, ", which does not use it: remove it");
    rule(
        {key, key::rope.scaling, key::rope.width, key::model.head_width,
         key::model.hidden, key::model.heads},
        [&] {
          const bool sized = m.own_head_width > 0 || m.hidden % m.heads == 0;
          return !longrope || !sized ||
                 static_cast<std::int64_t>(divisors.size()) == m.rotary_width() / 2;
        },
        key,
        [&] {
          return format(
              " has {} numbers, and {} pairs of each head turn: write one for "
              "each pair",
              divisors.size(), m.rotary_width() / 2);
        });
  };
  lists(key::rope.short_divisors, rope.short_divisors);
  lists(key::rope.long_divisors, rope.long_divisors);
}

void ModelRules::rope_rules() {
  using kernels::RopeScalingKind;
  const auto& m = config_.model;
  const auto& rope = m.rope_scaling;
  const bool llama3 = rope.kind == RopeScalingKind::llama3;
  const bool yarn = rope.kind == RopeScalingKind::yarn;
  const bool dynamic = rope.kind == RopeScalingKind::dynamic;
  const bool bounded =
      dynamic || llama3 || yarn || rope.kind == RopeScalingKind::longrope;
  meaningless(key::rope.scaling, key::model.architecture,
              m.row().positions != model::Positions::rotary,
              ", whose positions are learned: remove it");
  for (const io::DeckKey& each :
       {KeyRef(key::rope.factor), KeyRef(key::rope.attention_factor)})
    meaningless(each, key::rope.scaling, rope.kind == RopeScalingKind::none,
                ": remove it, or say how positions are scaled");
  for (const io::DeckKey& each :
       {KeyRef(key::rope.low_turns), KeyRef(key::rope.high_turns)})
    meaningless(each, key::rope.scaling, !llama3, ", which does not use it: remove it");
  for (const io::DeckKey& each :
       {KeyRef(key::rope.fast_turns), KeyRef(key::rope.slow_turns),
        KeyRef(key::rope.whole_pairs)})
    meaningless(each, key::rope.scaling, !yarn, ", which does not use it: remove it");
  meaningless(key::rope.original, key::rope.scaling, !bounded,
              ", which does not use it: remove it");
  rule({key::rope.scaling, key::rope.original}, !bounded || rope.original > 0,
       key::rope.scaling, " with ", key::rope.original,
       ": write how many positions the model had before");
  meaningless(key::rope.attention_factor, key::rope.scaling, dynamic,
              ", which does not use it: remove it");
  rule({key::rope.scaling, key::rope.width, key::model.head_width, key::model.hidden,
        key::model.heads},
       !dynamic || m.heads == 0 || m.rotary_width() != 2, key::rope.scaling,
       " changes the base of two pairs of each head at least, and one turns: write "
       "another scaling");
  rule({key::rope.low_turns, key::rope.high_turns}, !llama3 || rope.low < rope.high,
       key::rope.low_turns, " is not less than ", key::rope.high_turns,
       ": pairs between the two are divided in part; write a larger high_turns");
  rope_layer_rules();
  longrope_rules();
}

}  // namespace trireme::config
