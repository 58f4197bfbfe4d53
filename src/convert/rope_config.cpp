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
using model::HuggingFaceRow;
using model::ModelConfig;

constexpr double most_theta = 1e12;
constexpr auto original_key = "original_max_position_embeddings",
               part_key = "partial_rotary_factor", newer_key = "rope_parameters",
               older_key = "rope_scaling", layers_key = "no_rope_layers",
               interval_key = "no_rope_layer_interval";
constexpr std::array<std::string_view, 18> known = {
    "rope_type",        "type",
    "rope_theta",       "factor",
    "low_freq_factor",  "high_freq_factor",
    "beta_fast",        "beta_slow",
    "mscale",           "mscale_all_dim",
    "truncate",         original_key,
    "attention_factor", part_key,
    "finetuned",        "max_position_embeddings",
    "short_factor",     "long_factor"};

struct KindName {
  std::string_view name;
  RopeScalingKind kind;
};
constexpr std::array kinds = {KindName{"default", RopeScalingKind::none},
                              KindName{"dynamic", RopeScalingKind::dynamic},
                              KindName{"linear", RopeScalingKind::linear},
                              KindName{"llama3", RopeScalingKind::llama3},
                              KindName{"yarn", RopeScalingKind::yarn},
                              KindName{"longrope", RopeScalingKind::longrope}};

RopeScalingKind read_kind(const ConfigFields& fields, const model::RopeRule& rule) {
  const std::string_view key = fields.has("rope_type") ? "rope_type" : "type";
  const std::string name = fields.text(key, "default");
  if (rule.longrope_only && (name == "su" || name == "yarn"))
    return RopeScalingKind::longrope;
  const auto* const found = std::find_if(
      kinds.begin(), kinds.end(), [&](const auto& each) { return each.name == name; });
  if (found == kinds.end())
    fields.refuse(key,
                  "is no scaling of rotary positions that this program computes: it has "
                  "default, dynamic, linear, llama3, yarn and longrope");
  if (rule.longrope_only && found->kind != RopeScalingKind::none &&
      found->kind != RopeScalingKind::longrope)
    fields.refuse(key, "is not what this class computes, which has longrope only");
  return found->kind;
}

// The factor of cosines and sines. Source: Peng et al., "YaRN", 2023, section 3.4; of
// DeepSeek-V3 the quotient of two such.
double yarn_attention(const ConfigFields& fields, double factor) {
  const auto of = [&](double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
  };
  if (fields.has("attention_factor")) return fields.real("attention_factor", 1, 0, 1e3);
  // 0 stands for neither, as in transformers.
  const auto given = [&](const char* key) {
    return fields.has(key) && fields.value(key) != 0;
  };
  if (given("mscale") && given("mscale_all_dim"))
    return of(fields.real("mscale", 1, 0, 1e3)) /
           of(fields.real("mscale_all_dim", 1, 0, 1e3));
  return of(1);
}

// The same of longrope. Source: Ding et al., "LongRoPE", 2024; Abdin et al., "Phi-3",
// 2024.
double longrope_attention(const ConfigFields& fields, const RopeScaling& scaling) {
  if (fields.has("attention_factor")) return fields.real("attention_factor", 1, 0, 1e3);
  if (scaling.factor <= 1) return 1;
  return std::sqrt(1 + std::log(scaling.factor) / std::log(scaling.original));
}

std::vector<double> read_divisors(const ConfigFields& fields, const char* key,
                                  std::int64_t pairs) {
  require(fields.has(key), Status::bad_content,
          "{}: '{}' is missing: what the frequency of each pair is divided by",
          fields.source(), fields.place_of(key));
  const io::Json& list = fields.value(key);
  std::vector<double> divisors;
  if (list.is_array())
    for (const io::Json& each : list)
      divisors.push_back(each.is_number() ? each.get<double>() : 0);
  const bool sound = std::all_of(divisors.begin(), divisors.end(), [](double divisor) {
    return divisor > 0 && divisor < 1e6;
  });
  if (!sound || divisors.size() != static_cast<std::size_t>(pairs))
    fields.refuse(key, format("is no list of {} numbers above 0, one for each pair that "
                              "turns",
                              pairs));
  return divisors;
}

RopeScaling read_scaling(const ConfigFields& all, const ConfigFields& fields,
                         const HuggingFaceRow& row, const ModelConfig& m) {
  for (const auto& [key, value] : fields.json().items())
    if (std::find(known.begin(), known.end(), key) == known.end() && !value.is_null() &&
        !(row.rope.sections && key.starts_with("mrope_")))
      fields.refuse(key, "is no setting of rotary positions that this program knows");
  RopeScaling scaling;
  scaling.kind = read_kind(fields, row.rope);
  if (scaling.kind == RopeScalingKind::none) return scaling;
  const auto positions = static_cast<double>(m.sequence);
  double before =
      row.rope.original > 0 ? static_cast<double>(row.rope.original) : positions;
  before = fields.real(original_key, before, 0, 1e9);
  before = all.real(original_key, before, 0, 1e9);
  const bool longrope = scaling.kind == RopeScalingKind::longrope;
  const bool implied =
      (longrope || scaling.kind == RopeScalingKind::yarn) && !fields.has("factor");
  require(implied || fields.has("factor"), Status::bad_content,
          "{}: '{}' is missing: how many times longer the texts are", all.source(),
          fields.place_of("factor"));
  scaling.factor = implied ? positions / before : fields.real("factor", 1, 0, 1e6);
  if (scaling.kind == RopeScalingKind::linear) return scaling;
  if (scaling.kind == RopeScalingKind::dynamic) {
    scaling.original = positions;  // whatever the key says, as transformers has it
    if (m.rotary_width() <= 2)
      fields.refuse(fields.has("rope_type") ? "rope_type" : "type",
                    "changes the base of two pairs of each head at least, and one turns");
    return scaling;
  }
  scaling.original = before;
  if (scaling.kind == RopeScalingKind::llama3) {
    scaling.low = fields.real("low_freq_factor", 1, 0, 1e6);
    scaling.high = fields.real("high_freq_factor", 4, 0, 1e6);
    if (scaling.low >= scaling.high && fields.has("low_freq_factor"))
      fields.refuse("low_freq_factor", "is not less than high_freq_factor");
    return scaling;
  }
  if (longrope) {
    const std::int64_t pairs = m.rotary_width() / 2;
    scaling.short_divisors = read_divisors(fields, "short_factor", pairs);
    scaling.long_divisors = read_divisors(fields, "long_factor", pairs);
    scaling.attention_factor = longrope_attention(fields, scaling);
    return scaling;
  }
  scaling.fast = fields.real("beta_fast", 32, 0, 1e6);
  scaling.slow = fields.real("beta_slow", 1, 0, 1e6);
  scaling.whole_pairs = fields.flag("truncate", true);
  if (!scaling.whole_pairs && row.rope.by_kind)
    fields.refuse(
        "truncate",
        "means nothing to transformers 5 in this class, which takes whole pairs: "
        "remove it");
  scaling.attention_factor = yarn_attention(fields, scaling.factor);
  return scaling;
}

// Numbers of each head that turn, 0 for all of them: as the classes round it.
std::int64_t read_width(const ConfigFields& fields, const ConfigFields& inner,
                        const HuggingFaceRow& row, const ModelConfig& m) {
  const auto& rule = row.rope;
  const bool inside = inner.has(part_key);
  const ConfigFields& from = inside ? inner : fields;
  const std::string_view key = inside || rule.part.empty() ? part_key : rule.part;
  const double part = from.real(key, rule.default_part, 0, 1);
  if (part == 1) return 0;
  if (rule.part.empty())
    from.refuse(key,
                format("turns a part of each head, which {} does not", row.class_name));
  const auto K = m.head_width();
  const auto width = static_cast<std::int64_t>(static_cast<double>(K) * part);
  require(
      width > 0 && width % 2 == 0, Status::bad_content,
      "{}: '{}' = {} turns {} numbers of each head of {}, which must be an even count",
      from.source(), from.place_of(key), part, width, K);
  return width == K ? 0 : width;
}

double read_theta(const ConfigFields& fields, const ConfigFields& inner,
                  const HuggingFaceRow& row) {
  const std::string_view key = row.rope.theta;
  const double outer = fields.real(key, 0, 0, most_theta);
  const double theta = inner.real("rope_theta", outer, 0, most_theta);
  if (outer > 0 && theta != outer)
    inner.refuse("rope_theta",
                 format("differs from '{}' = {}: which one is it?", key, outer));
  require(
      theta > 0, Status::bad_content,
      "{}: '{}' is missing, and no default is safe: write \"{}\": {} "
      "if the model was made with the class's default of transformers 5, or the value "
      "that it was trained with",
      fields.source(), key, key, row.defaults.rope_theta);
  return theta;
}

// Of a class whose layers turn in two ways: where the base stands beside their objects,
// it is not theirs.
void require_by_kind(const ConfigFields& fields, const ConfigFields& given,
                     const HuggingFaceRow& row) {
  if (fields.has(row.rope.theta) || given.has(model::full_attention) ||
      !given.has("rope_theta"))
    return;
  given.refuse("rope_theta",
               format("is not read by {}, which has an object for each kind of layers: "
                      "write it into '{}' and '{}' there",
                      row.class_name, model::full_attention, model::sliding_attention));
}

// Of each layer whether it turns; empty: all do.
std::vector<std::int64_t> read_layers(const ConfigFields& fields, std::int64_t layers) {
  std::vector<std::int64_t> turns;
  const std::int64_t interval = fields.integer(interval_key, 4, 1, INT32_MAX);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    turns.push_back((layer + 1) % interval != 0 ? 1 : 0);
  if (fields.has(layers_key)) {
    const io::Json& list = fields.value(layers_key);
    const auto is_flag = [](const io::Json& each) { return each == 0 || each == 1; };
    if (!list.is_array() || list.size() < turns.size() ||
        !std::all_of(list.begin(), list.end(), is_flag))
      fields.refuse(layers_key,
                    format("is no list of 0 or 1 for each of {} layers", layers));
    for (std::size_t layer = 0; layer < turns.size(); ++layer)
      turns[layer] = list[layer].get<std::int64_t>();
  }
  const bool all = std::find(turns.begin(), turns.end(), 0) == turns.end();
  return all ? std::vector<std::int64_t>{} : turns;
}

// The base of layers with a window; 0 where they turn as the others do.
double read_sliding(const ConfigFields& fields, const ConfigFields& inner,
                    const HuggingFaceRow& row, const ModelConfig& m) {
  const auto& rule = row.rope;
  if (read_kind(inner, rule) != RopeScalingKind::none)
    inner.refuse("rope_type",
                 "scales positions in layers with a window, which this "
                 "program does not compute");
  const double older =
      fields.real(rule.sliding_theta, rule.default_sliding_theta, 0, most_theta);
  const double theta = inner.real("rope_theta", older, 0, most_theta);
  const bool same = theta == m.rope_theta && m.rope_scaling.kind == RopeScalingKind::none;
  return same ? 0 : theta;
}

// Where both keys are there, as this program writes them: transformers reads the older
// one, and the base of the newer one alone if the older has none.
void require_same(const ConfigFields& fields, const ConfigFields& newer,
                  const HuggingFaceRow& row, const ModelConfig& m) {
  const ConfigFields older = fields.object(older_key);
  if (older.json().empty()) return;
  const bool same_base = !older.has("rope_theta") || !newer.has("rope_theta") ||
                         older.value("rope_theta") == newer.value("rope_theta");
  if (!same_base ||
      read_scaling(fields, older, row, m) != read_scaling(fields, newer, row, m))
    fields.refuse(newer_key,
                  format("differs from '{}', which transformers reads in its place: "
                         "remove one of them",
                         older_key));
}

}  // namespace

void read_rope(const ConfigFields& fields, const HuggingFaceRow& row, ModelConfig& m) {
  const io::Json none = io::Json::object();
  const ConfigFields nothing(none, fields.source());
  const bool newer = fields.has(newer_key), older = fields.has(older_key);
  const ConfigFields given = newer ? fields.object(newer_key) : nothing;
  const auto of_kind = [&](std::string_view kind) {
    return given.has(kind) ? given.object(kind) : nothing;
  };
  const bool split = row.rope.by_kind && newer;
  if (split) require_by_kind(fields, given, row);
  const ConfigFields inner = split ? of_kind(model::full_attention) : given;
  m.rope_theta = read_theta(fields, inner, row);
  if (!m.row().latent) m.rope_width = read_width(fields, inner, row, m);
  m.rope_scaling = {};
  if (newer && older && !row.rope.by_kind) require_same(fields, inner, row, m);
  if (older && (row.rope.by_kind || !newer)) {
    const ConfigFields scaling = fields.object(older_key);
    if (row.rope.by_kind && scaling.has("type") && !scaling.has("rope_type"))
      scaling.refuse("type",
                     "means no scaling to transformers 5 in this class: write "
                     "\"rope_type\" if it is meant, or remove rope_scaling");
    m.rope_scaling = read_scaling(fields, scaling, row, m);
  } else if (newer) {
    m.rope_scaling = read_scaling(fields, inner, row, m);
  } else if (!row.rope.default_scaling.empty()) {
    const io::Json scaling = io::Json::parse(row.rope.default_scaling);
    m.rope_scaling =
        read_scaling(fields, ConfigFields(scaling, fields.source(), older_key), row, m);
  }
  if (row.rope.some_layers) m.rope_layers = read_layers(fields, m.layers);
  if (row.rope.by_kind)
    m.sliding_rope_theta =
        read_sliding(fields, split ? of_kind(model::sliding_attention) : nothing, row, m);
}

bool can_say_rope(const HuggingFaceRow& row, const ModelConfig& m) {
  const auto kind = m.rope_scaling.kind;
  const bool scaled = kind != RopeScalingKind::none;
  return (m.rope_width == 0 || !row.rope.part.empty() || m.row().latent) &&
         (m.rope_layers.empty() || row.rope.some_layers) &&
         (m.sliding_rope_theta == 0 || row.rope.by_kind) &&
         (!scaled || !row.rope.by_kind || m.window == 0 || m.sliding_rope_theta > 0) &&
         (!scaled || !row.rope.longrope_only || kind == RopeScalingKind::longrope);
}

void require_expressible_rope(const ModelConfig& m, const HuggingFaceRow& row) {
  const RopeScaling& scaling = m.rope_scaling;
  const auto needs = [&](bool expressible, std::string_view key, const auto& value) {
    require(expressible, Status::bad_content,
            "{} = {} is unknown to {} with its kind of model.rope.scaling: the model "
            "cannot be written as a Hugging Face folder",
            key, value, row.class_name);
  };
  const bool has_factor =
      scaling.kind == RopeScalingKind::yarn || scaling.kind == RopeScalingKind::longrope;
  needs(has_factor || scaling.attention_factor == 1, "model.rope.attention_factor",
        scaling.attention_factor);
  needs(scaling.original == std::floor(scaling.original), "model.rope.original",
        scaling.original);
  needs(scaling.kind != RopeScalingKind::yarn || scaling.whole_pairs || !row.rope.by_kind,
        "model.rope.whole_pairs", "false");
  // Its configuration counts the pairs of a head as wide as hidden / heads.
  needs(!row.rope.longrope_only || scaling.kind != RopeScalingKind::longrope ||
            m.head_width() * m.heads == m.hidden,
        "model.head_width", m.head_width());
}

namespace {

io::Json scaling_json(const RopeScaling& scaling) {
  io::Json rope;
  rope["rope_type"] = std::find_if(kinds.begin(), kinds.end(), [&](const KindName& each) {
                        return each.kind == scaling.kind;
                      })->name;
  if (scaling.kind != RopeScalingKind::none) rope["factor"] = scaling.factor;
  if (scaling.original > 0 && scaling.kind != RopeScalingKind::dynamic)
    rope[original_key] = static_cast<std::int64_t>(scaling.original);
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
  if (scaling.kind == RopeScalingKind::longrope) {
    rope["short_factor"] = scaling.short_divisors;
    rope["long_factor"] = scaling.long_divisors;
    rope["attention_factor"] = scaling.attention_factor;
  }
  return rope;
}

// The part of each head that turns, from which the classes get back the same count.
double part_of(const ModelConfig& m) {
  const auto K = static_cast<double>(m.head_width());
  double part = static_cast<double>(m.rotary_width()) / K;
  while (static_cast<std::int64_t>(K * part) < m.rotary_width())
    part = std::nextafter(part, 2.0);
  return part;
}

}  // namespace

void write_rope(const ModelConfig& m, const HuggingFaceRow& row, io::Json& json) {
  const auto& rule = row.rope;
  const RopeScaling& scaling = m.rope_scaling;
  io::Json rope = scaling_json(scaling);
  json[std::string(rule.theta)] = m.rope_theta;
  json[older_key] = scaling.kind == RopeScalingKind::none ? io::Json(nullptr) : rope;
  if (rule.original > 0 && rope.contains(original_key))
    json[original_key] = rope[original_key];
  if (!rule.part.empty()) {
    json[std::string(rule.part)] = part_of(m);
    rope[part_key] = part_of(m);
  }
  rope["rope_theta"] = m.rope_theta;
  json[newer_key] = rope;
  if (rule.some_layers) {
    const auto layers = static_cast<std::size_t>(m.layers);
    json[layers_key] =
        m.rope_layers.empty() ? std::vector<std::int64_t>(layers, 1) : m.rope_layers;
  }
  if (!rule.by_kind) return;
  const bool own = m.sliding_rope_theta > 0;
  const double theta = own ? m.sliding_rope_theta : m.rope_theta;
  if (!rule.sliding_theta.empty()) json[std::string(rule.sliding_theta)] = theta;
  json[newer_key] = {{std::string(model::full_attention), rope},
                     {std::string(model::sliding_attention),
                      {{"rope_type", "default"}, {"rope_theta", theta}}}};
}

}  // namespace trireme::convert
