// Sliding windows: one for all layers, or for those that a list names.
// SPDX-License-Identifier: Apache-2.0
#include "convert/window_config.hpp"

#include <algorithm>

namespace trireme::convert {
namespace {

using Types = std::vector<std::string>;

constexpr auto window_key = "sliding_window", types_key = "layer_types",
               flag_key = "use_sliding_window", first_key = "max_window_layers",
               pattern_key = "sliding_window_pattern";

Types read_types(const ConfigFields& fields, std::int64_t layers) {
  Types types;
  if (!fields.has(types_key)) return types;
  const io::Json& list = fields.value(types_key);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(layers))
    fields.refuse(types_key, format("is no list of {} layers", layers));
  for (const io::Json& type : list) {
    if (type != model::full_attention && type != model::sliding_attention)
      fields.refuse(types_key, "has layers that this program does not compute");
    types.push_back(type.get<std::string>());
  }
  return types;
}

// Those of a class whose windows begin at a certain layer.
Types types_from(std::int64_t first, std::int64_t layers) {
  Types types;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    types.emplace_back(layer < first ? model::full_attention : model::sliding_attention);
  return types;
}

// Those of a class whose every so many-th layer sees all positions, and in which the
// window ends with a certain layer.
Types types_but_every(std::int64_t period, std::int64_t end, std::int64_t layers) {
  Types types;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool full = (layer + 1) % period == 0 || layer >= end;
    types.emplace_back(full ? model::full_attention : model::sliding_attention);
  }
  return types;
}

bool all_are(const Types& types, std::string_view word) {
  return std::all_of(types.begin(), types.end(),
                     [&](const std::string& type) { return type == word; });
}

}  // namespace

void read_window(const ConfigFields& fields, const model::HuggingFaceRow& row,
                 model::ModelConfig& m) {
  const model::WindowRule& rule = row.window;
  if (!rule.exists) return;
  Types types = read_types(fields, m.layers);
  if (rule.by_flag && !fields.flag(flag_key, false)) return;
  if (fields.is_given(window_key) && !fields.has(window_key)) {  // null
    const bool all_full = !types.empty() && all_are(types, model::full_attention);
    if (m.sliding_rope_theta > 0 && !all_full)
      fields.refuse(window_key,
                    "is not available: layers that turn by a base of their own have a "
                    "window here");
    m.sliding_rope_theta = 0;
    return;
  }
  const std::int64_t window =
      fields.integer(window_key, row.defaults.window, 0, INT32_MAX);
  if (window == 0) {
    if (fields.has(window_key))
      fields.refuse(window_key, "is a window without positions: null means none");
    return;
  }
  if (!rule.by_layer && !all_are(types, model::sliding_attention))
    fields.refuse(types_key,
                  format("is not what {} computes, which has the window in all "
                         "layers: remove it, or name another class",
                         row.class_name));
  if (rule.unturned && types.empty())
    for (std::int64_t layer = 0; layer < m.layers; ++layer)
      types.emplace_back(m.turns(layer) ? model::full_attention
                                        : model::sliding_attention);
  if (rule.from_layer && types.empty())
    types = types_from(fields.integer(first_key, 28, 0, INT32_MAX), m.layers);
  if (rule.full_every > 0 && types.empty()) {
    // Of these classes one alone reads the key.
    const bool by_pattern = m.architecture == model::Architecture::gemma3;
    const std::int64_t period =
        fields.integer(by_pattern ? pattern_key : "", rule.full_every, 1, 100000);
    const std::int64_t end =
        rule.until_layer ? fields.integer(first_key, 28, 0, INT32_MAX) : m.layers;
    types = types_but_every(period, end, m.layers);
  }
  if (!types.empty() && all_are(types, model::full_attention)) {
    m.sliding_rope_theta = 0;
    return;
  }
  if (all_are(types, model::sliding_attention)) types.clear();
  m.window = window;
  m.layer_types = std::move(types);
}

void write_window(const model::ModelConfig& m, const model::HuggingFaceRow& row,
                  io::Json& json) {
  const model::WindowRule& rule = row.window;
  if (!rule.exists) return;
  if (rule.by_flag) json[flag_key] = m.window > 0;
  if (m.window > 0) {
    json[window_key] = m.window;
  } else if (rule.full_every > 0 && !rule.by_flag) {
    json[window_key] = m.positions();  // classes that read a number in any case
  } else if (!rule.by_flag) {
    json[window_key] = nullptr;
  }
  if (!rule.by_layer) return;
  json.erase(types_key);
  if (m.window > 0)
    json[types_key] = m.layer_types.empty() ? types_from(0, m.layers) : m.layer_types;
  else if (rule.full_every > 0)
    json[types_key] = types_from(m.layers, m.layers);
}

bool can_say_window(const model::HuggingFaceRow& row, const model::ModelConfig& m) {
  if (m.window == 0) return true;
  return row.window.exists && (row.window.by_layer || m.layer_types.empty());
}

}  // namespace trireme::convert
