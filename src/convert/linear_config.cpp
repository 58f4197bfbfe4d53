// Linear attention in a config.json.
// SPDX-License-Identifier: Apache-2.0
#include "convert/linear_config.hpp"

#include <tuple>

namespace trireme::convert {
namespace {

constexpr auto key_heads = "linear_num_key_heads", value_heads = "linear_num_value_heads",
               key_width = "linear_key_head_dim", value_width = "linear_value_head_dim",
               taps = "linear_conv_kernel_dim", types_key = "layer_types",
               interval = "full_attention_interval";

// The convolution of linear attention has silu here.
constexpr std::string_view no_other_activation =
    "is also what the class's linear attention puts behind its convolution, where this "
    "program has silu only";

std::vector<std::string> types_of(const model::ModelConfig& m) {
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    types.emplace_back(m.is_linear(layer) ? model::linear_attention
                                          : model::full_attention);
  return types;
}

std::vector<std::string> read_types(const ConfigFields& fields, std::int64_t layers) {
  std::vector<std::string> types;
  if (fields.has(types_key)) {
    const io::Json& list = fields.value(types_key);
    if (!list.is_array() || list.size() != static_cast<std::size_t>(layers))
      fields.refuse(types_key, format("is no list of {} layers", layers));
    for (const io::Json& type : list) {
      if (type != model::full_attention && type != model::linear_attention)
        fields.refuse(types_key, "has layers that this program does not compute");
      types.push_back(type.get<std::string>());
    }
    return types;
  }
  const std::int64_t every = fields.integer(interval, 4, 1, 100000);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    types.emplace_back((layer + 1) % every == 0 ? model::full_attention
                                                : model::linear_attention);
  return types;
}

}  // namespace

void read_linear(const ConfigFields& fields, model::ModelConfig& m) {
  constexpr std::int64_t most_heads = 1 << 20, most_width = 1 << 12;
  auto& linear = m.attention.linear;
  linear.key_heads = fields.integer(key_heads, 16, 1, most_heads);
  linear.value_heads = fields.integer(value_heads, 32, 1, most_heads);
  linear.key_width = fields.integer(key_width, 128, 1, most_width);
  linear.value_width = fields.integer(value_width, 128, 1, most_width);
  linear.taps = fields.integer(taps, 4, 1, model::LinearSettings::most_taps);
  if (m.mlp.activation) fields.refuse("hidden_act", std::string(no_other_activation));
  require(linear.value_heads % linear.key_heads == 0, Status::bad_content,
          "{}: '{}' = {} must divide '{}' = {}", fields.source(), key_heads,
          linear.key_heads, value_heads, linear.value_heads);
  m.layer_types.clear();
  const std::vector<std::string> types = read_types(fields, m.layers);
  if (types != types_of(m)) m.layer_types = types;  // else a deck needs no words
}

void write_linear(const model::ModelConfig& m, io::Json& json) {
  const auto& linear = m.attention.linear;
  json[key_heads] = linear.key_heads;
  json[value_heads] = linear.value_heads;
  json[key_width] = linear.key_width;
  json[value_width] = linear.value_width;
  json[taps] = linear.taps;
  json[types_key] = types_of(m);
  json.erase(interval);
}

bool same_linear(const model::ModelConfig& a, const model::ModelConfig& b) {
  const auto form = [](const model::ModelConfig& m) {
    const auto& l = m.attention.linear;
    return std::tuple(l.key_heads, l.value_heads, l.key_width, l.value_width, l.taps);
  };
  return form(a) == form(b) && types_of(a) == types_of(b);
}

}  // namespace trireme::convert
