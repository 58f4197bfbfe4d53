// The model that a deck starts from.
// SPDX-License-Identifier: Apache-2.0
// It speaks in the place of keys of the model that the deck lacks.
#include "config/start_model.hpp"

#include <algorithm>

#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "config/resolved_deck.hpp"
#include "io/deck_toml.hpp"

namespace trireme::config {
namespace {

// The word of a choice that stands for a value, in quotes.
template <class T>
std::string quoted_word(const Choice<T>& key, const T& value) {
  return format("\"{}\"", key.word_for(value));
}

class Lines {
 public:
  void add(const io::DeckKey& key, const std::string& value) {
    if (value != key.fallback) all_.push_back(full_name(key) + " = " + value);
  }
  void add(const io::DeckKey& key, std::int64_t value) {
    add(key, std::to_string(value));
  }
  void add(const io::DeckKey& key, double value) { add(key, io::toml_real(value)); }
  void add(const io::DeckKey& key, const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words)
      list += format("{}\"{}\"", list.empty() ? "" : ", ", word);
    add(key, "[" + list + "]");
  }
  void add(const io::DeckKey& key, const std::vector<std::int64_t>& numbers) {
    std::string list;
    for (const std::int64_t number : numbers)
      list += format("{}{}", list.empty() ? "" : ", ", number);
    add(key, "[" + list + "]");
  }
  void add_flag(const io::DeckKey& key, bool value) {
    add(key, std::string(value ? "true" : "false"));
  }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string list;
  for (const T value : values) {
    if (!list.empty()) list += ", ";
    if constexpr (std::is_floating_point_v<T>) {
      list += io::toml_real(value);
    } else {
      list += std::to_string(value);
    }
  }
  return "[" + list + "]";
}

void add_rope(const model::ModelConfig& m, Lines& lines) {
  const kernels::RopeScaling& rope = m.rope_scaling;
  lines.add(key::rope.scaling, quoted_word(key::rope.scaling, rope.kind));
  lines.add(key::rope.factor, rope.factor);
  lines.add(key::rope.low_turns, rope.low);
  lines.add(key::rope.high_turns, rope.high);
  lines.add(key::rope.original, rope.original);
  lines.add(key::rope.fast_turns, rope.fast);
  lines.add(key::rope.slow_turns, rope.slow);
  lines.add_flag(key::rope.whole_pairs, rope.whole_pairs);
  lines.add(key::rope.attention_factor, rope.attention_factor);
  lines.add(key::rope.short_divisors, list_text(rope.short_divisors));
  lines.add(key::rope.long_divisors, list_text(rope.long_divisors));
  lines.add(key::rope.width, m.rope_width);
  lines.add(key::rope.layers, list_text(m.rope_layers));
  lines.add(key::rope.sliding_theta, m.sliding_rope_theta);
}

void add_linear(const model::LinearSettings& linear, Lines& lines) {
  lines.add(key::linear.key_heads, linear.key_heads);
  lines.add(key::linear.value_heads, linear.value_heads);
  lines.add(key::linear.key_width, linear.key_width);
  lines.add(key::linear.value_width, linear.value_width);
  lines.add(key::linear.taps, linear.taps);
}

void add_experts(const model::MoeSettings& moe, Lines& lines) {
  lines.add(key::moe.experts, moe.experts);
  lines.add(key::moe.top_k, moe.top_k);
  lines.add(key::moe.shared_experts, moe.shared_experts);
  lines.add(key::moe.expert_feed_forward, moe.expert_feed_forward);
  lines.add(key::moe.shared_feed_forward, moe.shared_feed_forward);
  lines.add(key::moe.dense_layers, moe.dense_layers);
  lines.add(key::moe.mlp_layers, moe.mlp_layers);
  lines.add(key::moe.every, moe.every);
  lines.add(key::moe.router, quoted_word(key::moe.router, moe.router));
  lines.add(key::moe.groups, moe.groups.groups);
  lines.add(key::moe.groups_used, moe.groups.used);
  lines.add(key::moe.group_counts, moe.groups.counted);
  lines.add_flag(key::moe.normalise, moe.normalise);
  lines.add(key::moe.scaling, moe.scaling);
  lines.add(key::moe.capacity_factor, moe.capacity_factor);
  lines.add(key::moe.aux_loss, moe.aux_loss);
  lines.add(key::moe.z_loss, moe.z_loss);
  lines.add_flag(key::moe.choice_bias, moe.choice_bias);
  lines.add(key::moe.bias_update_rate, moe.bias_update_rate);
}

// How a model is trained, which the deck decides whatever it starts from.
bool is_free(const std::string& key) {
  return key == full_name(key::model.sequence) ||
         key == full_name(key::model.initializer_range) ||
         key == full_name(key::moe.capacity_factor) ||
         key == full_name(key::moe.aux_loss) || key == full_name(key::moe.z_loss) ||
         key == full_name(key::moe.bias_update_rate) ||
         key == full_name(key::dropout.residual) ||
         key == full_name(key::dropout.embedding) ||
         key == full_name(key::dropout.attention);
}

// Whether the deck leaves the key to the program: it is not given, or as "auto" or 0.
bool is_left_open(const io::Deck& deck, const io::DeckKey& key) {
  const bool open = key.fallback == "0" || key.fallback == "\"auto\"";
  return !deck.given(key) || (open && deck.is_default(key));
}

bool is_of_model(const io::DeckKey& key) {
  return key.section.starts_with("model") && full_name(key) != "model.from" &&
         full_name(key) != "model.z_loss";
}

// A run that resumes reads its deck as at its start, and the deck needs the model.
model::ModelConfig model_of(const std::string& from, std::int64_t sequence,
                            const ReadModel& read_model) {
  try {
    return read_model(from, sequence);
  } catch (const Error& error) {
    if (error.status() != Status::missing_input) throw;
    fail(error.status(),
         "model.from = \"{}\": {}: write where the model lies, a folder or a checkpoint. "
         "(A run that resumes needs it for the keys that its deck leaves out: put it "
         "back, "
         "or give the deck.toml of run.directory, which has them all, with "
         "model.from=\"\"; keys of [adapter] may need the model itself.)",
         from, error.what());
  }
}

}  // namespace

// A section's keys stand together (model_text).
std::vector<std::string> model_lines(const model::ModelConfig& m) {
  Lines lines;
  lines.add(key::model.architecture,
            quoted_word(key::model.architecture, m.architecture));
  lines.add(key::model.layers, m.layers);
  lines.add(key::model.hidden, m.hidden);
  lines.add(key::model.heads, m.heads);
  lines.add(key::model.kv_heads, m.kv_heads);
  lines.add(key::model.head_width, m.own_head_width);
  lines.add(key::model.feed_forward, m.feed_forward);
  if (m.mlp.activation)
    lines.add(key::model.activation,
              quoted_word(key::model.activation, m.mlp.activation));
  lines.add(key::model.vocabulary, m.vocabulary);
  lines.add(key::model.sequence, m.sequence);
  lines.add(key::position.positions, m.own_positions);
  lines.add(key::model.window, m.window);
  lines.add(key::model.layer_types, m.layer_types);
  lines.add_flag(key::model.attention_bias, m.attention.bias);
  const bool rotary = m.row().positions == model::Positions::rotary;
  if (rotary) lines.add(key::model.rope_theta, m.rope_theta);
  lines.add(key::model.norm_eps, m.norm_eps);
  lines.add_flag(key::model.tie_embeddings, m.tie_embeddings);
  lines.add(key::model.initializer_range, m.initializer_range);
  lines.add(key::model.query_scalar, m.attention.query_scalar);
  lines.add(key::model.attention_cap, m.attention.cap);
  lines.add_flag(key::model.qk_norm, m.attention.qk_norm);
  lines.add_flag(key::model.mlp_bias, m.mlp.bias);
  lines.add_flag(key::model.parallel_residual, m.residual.parallel);
  lines.add(key::model.logit_cap, m.logit_cap);
  lines.add_flag(key::model_attention.own_bias, m.attention.own_bias);
  lines.add_flag(key::model_attention.scale_by_layer, m.attention.scale_by_layer);
  lines.add(key::embedding.pad_token, m.residual.pad_token);
  if (rotary) add_rope(m, lines);
  lines.add(key::latent.width, m.attention.latent.width);
  lines.add(key::latent.query_width, m.attention.latent.query_width);
  lines.add(key::latent.value_width, m.attention.latent.value_width);
  lines.add(key::latent.score_factor, m.attention.latent.score_factor);
  lines.add_flag(key::latent.neighbours, m.attention.latent.neighbours);
  if (m.has_linear()) add_linear(m.attention.linear, lines);
  if (m.has_experts()) add_experts(m.moe, lines);
  return lines.take();
}

std::string model_text(const model::ModelConfig& m) {
  std::string text, section;
  for (const std::string& line : model_lines(m)) {
    const auto dot = line.rfind('.', line.find(' '));
    if (section != line.substr(0, dot)) {
      section = line.substr(0, dot);
      text += format("[{}]\n", section);
    }
    text += line.substr(dot + 1) + "\n";
  }
  return text;
}

bool is_of_start_model(const io::DeckKey& key) {
  return is_of_model(key) && !is_free(full_name(key));
}

io::Deck load_with_model(const std::string& path, std::span<const std::string> overrides,
                         const ReadModel& read_model) {
  const auto table = deck_table();
  io::Deck deck = io::Deck::load_leniently(path, overrides, table);
  const std::string from = deck[key::model.from];
  if (from.empty()) return deck;
  require(static_cast<bool>(read_model), "this command does not read models");
  const bool own = deck.given(key::model.sequence) && deck.sound(key::model.sequence);
  const model::ModelConfig m =
      model_of(from, own ? deck[key::model.sequence] : std::int64_t{0}, read_model);
  const io::Deck model = io::Deck::parse_leniently("", from, model_lines(m), table);
  std::vector<std::string> open;
  std::vector<io::DeckProblem> problems;
  for (const io::DeckKey& key : table) {
    if (!is_of_model(key)) continue;
    const std::string name = full_name(key), value = model.value_text(key);
    if (is_left_open(deck, key)) {
      open.push_back(name + "=" + value);
    } else if (deck.sound(key) && !is_free(name) && deck.value_text(key) != value &&
               deck.value_text(key) != resolved_value(key, m)) {
      problems.push_back(
          {deck.where(key), name, deck.value_text(key),
           format("differs from {}, which '{}' has (model.from): remove the "
                  "key, or start from another model",
                  value, from)});
    }
  }
  io::Deck filled = io::Deck::load_leniently(path, overrides, table, open, from);
  filled.add_problems(problems);
  return filled;
}

}  // namespace trireme::config
