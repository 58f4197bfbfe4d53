// Rotary positions in a config.json: older and newer keys, and every kind of scaling.
// SPDX-License-Identifier: Apache-2.0
#include "convert/rope_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme::convert {
namespace {

using kernels::RopeScaling;
using kernels::RopeScalingKind;

constexpr double most_theta = 1e12;
constexpr std::array<std::string_view, 16> known = {
    "rope_type",        "type",
    "rope_theta",       "factor",
    "low_freq_factor",  "high_freq_factor",
    "beta_fast",        "beta_slow",
    "mscale",           "mscale_all_dim",
    "truncate",         "original_max_position_embeddings",
    "attention_factor", "partial_rotary_factor",
    "finetuned",        "max_position_embeddings"};

struct KindName {
  std::string_view name;
  RopeScalingKind kind;
};
// dynamic changes the base for texts beyond max_position_embeddings, of which there are
// none here. The first name of a kind is the one that is written.
constexpr std::array kinds = {KindName{"default", RopeScalingKind::none},
                              KindName{"dynamic", RopeScalingKind::none},
                              KindName{"linear", RopeScalingKind::linear},
                              KindName{"llama3", RopeScalingKind::llama3},
                              KindName{"yarn", RopeScalingKind::yarn}};

RopeScalingKind read_kind(const ConfigFields& fields) {
  const std::string_view key = fields.has("rope_type") ? "rope_type" : "type";
  const std::string name = fields.text(key, "default");
  const auto* const found = std::find_if(
      kinds.begin(), kinds.end(), [&](const auto& each) { return each.name == name; });
  if (found == kinds.end())
    fields.refuse(key,
                  "is no scaling of rotary positions that this program computes: it has "
                  "default, dynamic, linear, llama3 and yarn");
  return found->kind;
}

// The factor of cosines and sines. Source: Peng et al., "YaRN", 2023, section 3.4; of
// DeepSeek-V3 the quotient of two such.
double yarn_attention(const ConfigFields& fields, double factor) {
  const auto of = [&](double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
  };
  if (fields.has("attention_factor")) return fields.real("attention_factor", 1, 0, 1e3);
  if (fields.has("mscale") && fields.has("mscale_all_dim"))
    return of(fields.real("mscale", 1, 0, 1e3)) /
           of(fields.real("mscale_all_dim", 1, 0, 1e3));
  return of(1);
}

RopeScaling read_scaling(const ConfigFields& all, const ConfigFields& fields,
                         std::int64_t positions) {
  for (const auto& [key, value] : fields.json().items())
    if (std::find(known.begin(), known.end(), key) == known.end() && !value.is_null())
      fields.refuse(key, "is no setting of rotary positions that this program knows");
  RopeScaling scaling;
  scaling.kind = read_kind(fields);
  if (scaling.kind == RopeScalingKind::none) return scaling;
  constexpr auto original = "original_max_position_embeddings";
  double before = static_cast<double>(positions);
  before = fields.real(original, before, 0, 1e9);
  before = all.real(original, before, 0, 1e9);
  const bool implied = scaling.kind == RopeScalingKind::yarn && !fields.has("factor");
  require(implied || fields.has("factor"), Status::bad_content,
          "{}: '{}' is missing: how many times longer the texts are", all.source(),
          fields.place_of("factor"));
  scaling.factor = implied ? static_cast<double>(positions) / before
                           : fields.real("factor", 1, 0, 1e6);
  if (scaling.kind == RopeScalingKind::linear) return scaling;
  scaling.original = before;
  if (scaling.kind == RopeScalingKind::llama3) {
    scaling.low = fields.real("low_freq_factor", 1, 0, 1e6);
    scaling.high = fields.real("high_freq_factor", 4, 0, 1e6);
    if (scaling.low >= scaling.high && fields.has("low_freq_factor"))
      fields.refuse("low_freq_factor", "is not less than high_freq_factor");
    return scaling;
  }
  scaling.fast = fields.real("beta_fast", 32, 0, 1e6);
  scaling.slow = fields.real("beta_slow", 1, 0, 1e6);
  scaling.whole_pairs = fields.flag("truncate", true);
  scaling.attention_factor = yarn_attention(fields, scaling.factor);
  return scaling;
}

}  // namespace

void read_rope(const ConfigFields& fields, std::int64_t positions, double fallback,
               model::ModelConfig& model) {
  if (fields.real("partial_rotary_factor", 1, 0, 1) != 1)
    fields.refuse("partial_rotary_factor",
                  "turns a part of each head, which this program "
                  "does not compute");
  const bool newer = fields.has("rope_parameters"), older = fields.has("rope_scaling");
  double theta = fields.real("rope_theta", 0, 0, most_theta);
  if (newer) {
    const ConfigFields inner = fields.object("rope_parameters");
    if (inner.real("partial_rotary_factor", 1, 0, 1) != 1)
      inner.refuse("partial_rotary_factor",
                   "turns a part of each head, which this program does not compute");
    const double own = inner.real("rope_theta", theta, 0, most_theta);
    if (theta > 0 && own != theta)
      inner.refuse("rope_theta",
                   format("differs from 'rope_theta' = {}: which one is it?", theta));
    theta = own;
  }
  require(
      theta > 0, Status::bad_content,
      "{}: 'rope_theta' is missing, and no default is safe: write \"rope_theta\": {} "
      "if the model was made with the class's default of transformers 5, or the value "
      "that it was trained with",
      fields.source(), fallback);
  model.rope_theta = theta;
  if (newer || older)
    model.rope_scaling = read_scaling(
        fields, fields.object(newer ? "rope_parameters" : "rope_scaling"), positions);
}

void write_rope(const model::ModelConfig& model, io::Json& json) {
  const RopeScaling& scaling = model.rope_scaling;
  io::Json rope;
  rope["rope_type"] = std::find_if(kinds.begin(), kinds.end(), [&](const KindName& each) {
                        return each.kind == scaling.kind;
                      })->name;
  if (scaling.kind != RopeScalingKind::none) rope["factor"] = scaling.factor;
  if (scaling.original > 0)
    rope["original_max_position_embeddings"] =
        static_cast<std::int64_t>(scaling.original);
  if (scaling.kind == RopeScalingKind::llama3) {
    rope["low_freq_factor"] = scaling.low;
    rope["high_freq_factor"] = scaling.high;
  }
  if (scaling.kind == RopeScalingKind::yarn) {
    rope["beta_fast"] = scaling.fast;
    rope["beta_slow"] = scaling.slow;
    rope["truncate"] = scaling.whole_pairs;
    rope["attention_factor"] = scaling.attention_factor;
  }
  json["rope_theta"] = model.rope_theta;
  json["rope_scaling"] = scaling.kind == RopeScalingKind::none ? io::Json(nullptr) : rope;
  rope["rope_theta"] = model.rope_theta;
  json["rope_parameters"] = rope;
}

}  // namespace trireme::convert
