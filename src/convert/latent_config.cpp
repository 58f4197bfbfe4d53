// Latent attention in a config.json.
// SPDX-License-Identifier: Apache-2.0
#include "convert/latent_config.hpp"

#include <cmath>
#include <tuple>

namespace trireme::convert {
namespace {

constexpr std::string_view rope_keys[] = {"rope_parameters", "rope_scaling"};
constexpr auto score_key = "mscale_all_dim";

// What yarn, or another scaling, multiplies scores by: (0.1 x ln f + 1)^2 of the factor f
// and the key x.
double read_score_factor(const ConfigFields& fields, kernels::RopeScalingKind kind) {
  if (kind == kernels::RopeScalingKind::none) return 1;
  for (const std::string_view key : rope_keys) {
    if (!fields.has(key)) continue;
    const ConfigFields rope = fields.object(key);
    if (!rope.has(score_key) || rope.value(score_key) == 0) continue;
    const double x = rope.real(score_key, 0, -1e3, 1e3),
                 f = rope.real("factor", 1, 0, 1e6);
    const double m = f > 1 ? 0.1 * x * std::log(f) + 1 : 1;
    return m * m;
  }
  return 1;
}

}  // namespace

void read_latent_widths(const ConfigFields& fields, const model::HuggingFaceRow& row,
                        model::ModelConfig& m) {
  const auto& keys = row.keys;
  const auto& d = row.defaults;
  constexpr std::int64_t most = 1 << 16, most_latent = 1 << 20;
  auto& latent = m.attention.latent;
  const auto width = [&](std::string_view key, std::int64_t fallback) {
    return fields.integer(key, fallback, 1, most);
  };
  latent.width = fields.integer(keys.latent, d.latent, 1, most_latent);
  const bool at_once =
      fields.is_given(keys.query_latent) && !fields.has(keys.query_latent);
  latent.query_width =
      at_once ? 0 : fields.integer(keys.query_latent, d.query_latent, 1, most_latent);
  m.rope_width = width(keys.rotary_width, d.rotary_width);
  latent.value_width = width(keys.value_width, d.value_width);
  m.own_head_width = width(keys.unturned_width, d.unturned_width) + m.rope_width;
  require(m.kv_heads == m.heads, Status::bad_content,
          "{}: '{}' = {} differs from '{}' = {}, and latent attention has a key for each "
          "query",
          fields.source(), keys.kv_heads, m.kv_heads, keys.heads, m.heads);
  require(m.rope_width % 2 == 0, Status::bad_content, "{}: '{}' = {} must be even",
          fields.source(), keys.rotary_width, m.rope_width);
  require(latent.value_width <= m.own_head_width, Status::bad_content,
          "{}: '{}' = {} is more than the width of keys, {}, which this program cannot "
          "compute",
          fields.source(), keys.value_width, latent.value_width, m.own_head_width);
}

void read_latent_positions(const ConfigFields& fields, const model::HuggingFaceRow& row,
                           model::ModelConfig& m) {
  const auto& keys = row.keys;
  auto& latent = m.attention.latent;
  latent.score_factor = read_score_factor(fields, m.rope_scaling.kind);
  const bool is_null = fields.is_given(keys.neighbours) && !fields.has(keys.neighbours);
  latent.neighbours = fields.flag(keys.neighbours, !is_null);
}

void require_expressible_latent(const model::ModelConfig& m,
                                const model::HuggingFaceRow& row) {
  const auto& latent = m.attention.latent;
  require(latent.neighbours || !row.keys.neighbours.empty(), Status::bad_content,
          "model.latent.neighbours = false is unknown to {}: the model cannot be written "
          "as a Hugging Face folder",
          row.class_name);
  // It reads pairs of numbers as complex ones, in place.
  const bool even = latent.width % 2 == 0 && m.head_width() % 2 == 0;
  require(even || !row.keys.neighbours.empty(), Status::bad_content,
          "model.latent.width = {} and model.head_width = {} have to be even for {}: the "
          "model cannot be written as a Hugging Face folder",
          latent.width, m.head_width(), row.class_name);
}

void write_latent(const model::ModelConfig& m, const model::HuggingFaceRow& row,
                  io::Json& json) {
  const auto& keys = row.keys;
  const auto& latent = m.attention.latent;
  const auto put = [&](std::string_view key, const io::Json& value) {
    if (!key.empty()) json[std::string(key)] = value;
  };
  put(keys.latent, latent.width);
  put(keys.query_latent,
      latent.query_width > 0 ? io::Json(latent.query_width) : io::Json());
  put(keys.unturned_width, m.head_width() - m.rope_width);
  put(keys.rotary_width, m.rope_width);
  put(keys.value_width, m.value_width());
  put(keys.neighbours, latent.neighbours);
  put("head_dim", m.rope_width);
  put("qk_head_dim", m.head_width());
  for (const std::string_view key : rope_keys) {
    const auto rope = json.find(std::string(key));
    if (latent.score_factor == 1 || rope == json.end() || !rope->is_object()) continue;
    (*rope)[score_key] =
        (std::sqrt(latent.score_factor) - 1) / (0.1 * std::log(m.rope_scaling.factor));
  }
}

bool same_latent(const model::ModelConfig& a, const model::ModelConfig& b) {
  const auto form = [](const model::ModelConfig& m) {
    return std::tuple(m.attention.latent.width, m.attention.latent.query_width,
                      m.rope_width, m.value_width(), m.attention.latent.score_factor,
                      m.attention.latent.neighbours);
  };
  return form(a) == form(b);
}

}  // namespace trireme::convert
