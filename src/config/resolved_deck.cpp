// A deck's text with sizes that follow from others written out.
// SPDX-License-Identifier: Apache-2.0
#include "config/resolved_deck.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "config/keys.hpp"

namespace trireme::config {
namespace {

// Writes a value where the key's line has `written`.
void resolve(std::string& deck, const io::DeckKey& key, std::string_view written,
             const std::string& value) {
  if (value == written) return;
  const auto section = deck.find(format("\n[{}]\n", key.section));
  if (section == std::string::npos) return;
  const auto end = std::min(deck.find("\n[", section + 1), deck.size());
  const std::string line = format("\n{} = {} ", key.name, written);
  const auto at = deck.find(line, section);
  if (at == std::string::npos || at >= end) return;
  const auto comment = deck.find("# ", at);
  const std::string head = format("\n{} = {}", key.name, value);
  const std::size_t width = comment - at;
  deck.replace(at, width,
               head + std::string(head.size() < width ? width - head.size() : 2, ' '));
  const auto moved = deck.find("# ", at);
  deck.insert(moved + 2, format("(written: {}) ", written));
}

// What stands for 0 in keys that leave a size to others; 0: that too is 0.
auto sizes_of(const model::ModelConfig& model) {
  const bool experts = model.has_experts();
  return std::to_array<std::pair<const io::DeckKey&, std::int64_t>>({
      {key::model.kv_heads, model.kv_heads},
      {key::model.head_width, model.rotary() ? model.head_width() : 0},
      {key::model.feed_forward, model.feed_forward},
      {key::model.vocabulary, model.vocabulary},
      {key::moe.expert_feed_forward, experts ? model.expert_width() : 0},
      {key::moe.shared_feed_forward, experts ? model.shared_width() : 0},
      {key::latent.value_width, model.row().latent ? model.value_width() : 0},
  });
}

std::string activation_text(const model::ModelConfig& model) {
  return format("\"{}\"", kernels::row_of(model.activation()).name);
}

}  // namespace

std::string resolved_value(const io::DeckKey& key, const model::ModelConfig& model) {
  const std::string name = full_name(key);
  if (name == full_name(key::model.activation)) return activation_text(model);
  for (const auto& [of_size, size] : sizes_of(model))
    if (size > 0 && name == full_name(of_size)) return std::to_string(size);
  return "";
}

std::string resolved_deck(const std::string& effective, const RunConfig& config) {
  std::string deck = effective;
  const model::ModelConfig& model = config.model;
  for (const auto& [key, size] : sizes_of(model))
    if (size > 0) resolve(deck, key, "0", std::to_string(size));
  resolve(deck, key::model.activation, "\"auto\"", activation_text(model));
  resolve(deck, key::precision.recipe, "\"auto\"",
          format("\"{}\"", config.precision.recipe.name));
  return deck;
}

}  // namespace trireme::config
