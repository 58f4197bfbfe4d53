// Experts in a config.json.
// SPDX-License-Identifier: Apache-2.0
#include "convert/expert_config.hpp"

#include <algorithm>
#include <tuple>

namespace trireme::convert {
namespace {

using model::HuggingFaceRow;
using model::ModelConfig;

constexpr std::int64_t most_experts = 1 << 20, most_width = 1 << 28;

// Layers of a list, which may be absent.
std::vector<std::int64_t> read_layers(const ConfigFields& fields, std::string_view key,
                                      std::int64_t layers) {
  std::vector<std::int64_t> list;
  if (key.empty() || !fields.has(key)) return list;
  const io::Json& json = fields.value(key);
  if (!json.is_array()) fields.refuse(key, "is no list of layers");
  for (const io::Json& layer : json) {
    if (!layer.is_number_integer() || layer.get<std::int64_t>() < 0 ||
        layer.get<std::int64_t>() >= layers)
      fields.refuse(key, format("has an entry that is none of {} layers", layers));
    list.push_back(layer.get<std::int64_t>());
  }
  return list;
}

void put(io::Json& json, std::string_view key, const io::Json& value) {
  if (!key.empty()) json[std::string(key)] = value;
}

// What decides which experts a token uses, and in which layers.
auto choice_of(const ModelConfig& m) {
  const auto& s = m.moe;
  return std::tuple(s.experts, s.top_k, s.normalise, s.scaling, s.router, s.choice_bias,
                    s.groups.groups, s.groups.used, s.groups.counted, m.expert_width(),
                    m.shared_width());
}

}  // namespace

void read_experts(const ConfigFields& fields, const HuggingFaceRow& row, ModelConfig& m) {
  const auto& keys = row.keys;
  const auto& d = row.defaults;
  auto& moe = m.moe;
  const std::string_view count =
      fields.has(keys.moe.experts) ? keys.moe.experts : keys.moe.experts_too;
  moe.experts = fields.integer(count, d.moe.experts, 1, most_experts);
  moe.top_k = fields.integer(keys.moe.top_k, d.moe.top_k, 1, most_experts);
  require(moe.top_k > 0, Status::bad_content, "{}: '{}' is missing", fields.source(),
          keys.moe.top_k);
  require(moe.top_k <= moe.experts, Status::bad_content,
          "{}: '{}' = {} is more than '{}' = {}", fields.source(), keys.moe.top_k,
          moe.top_k, count, moe.experts);
  moe.expert_feed_forward =
      fields.integer(keys.moe.feed_forward, d.moe.feed_forward, 1, most_width);
  moe.shared_experts =
      fields.integer(keys.moe.shared_experts, d.moe.shared_experts, 0, most_experts);
  moe.shared_feed_forward = fields.integer(keys.moe.shared_feed_forward,
                                           d.moe.shared_feed_forward, 1, most_width);
  const bool normalise_null =
      fields.is_given(keys.moe.normalise) && !fields.has(keys.moe.normalise);
  moe.normalise =
      keys.moe.normalise.empty()
          ? d.moe.normalise
          : fields.flag(keys.moe.normalise, !normalise_null && d.moe.normalise);
  moe.scaling = fields.real(keys.moe.scaling, d.moe.scaling, 0, 1e6);
  moe.router = row.router.score;
  moe.choice_bias = row.router.choice_bias;
  const bool without_groups = !keys.moe.group_method.empty() &&
                              fields.text(keys.moe.group_method, "greedy") == "greedy";
  if (!without_groups) {
    moe.groups.groups =
        fields.integer(keys.moe.groups, d.moe.groups, 1, kernels::most_expert_groups);
    if (moe.groups.groups > 1) moe.groups.counted = row.router.group_counts;
    moe.groups.used =
        fields.integer(keys.moe.groups_used, d.moe.groups_used, 1, moe.groups.groups);
  }
  const std::int64_t size = moe.experts / moe.groups.groups;
  require(size * moe.groups.groups == moe.experts && moe.top_k <= size * moe.groups.used,
          Status::bad_content,
          "{}: '{}' = {} of '{}' = {} groups cannot give '{}' = {} of {} experts",
          fields.source(), keys.moe.groups_used, moe.groups.used, keys.moe.groups,
          moe.groups.groups, keys.moe.top_k, moe.top_k, moe.experts);
  moe.dense_layers = fields.integer(keys.moe.dense_layers,
                                    std::min(d.moe.dense_layers, m.layers), 0, m.layers);
  moe.every = fields.integer(keys.moe.every, 1, 1, 100000);
  moe.mlp_layers = read_layers(fields, keys.moe.mlp_layers, m.layers);
}

void write_experts(const ModelConfig& m, const HuggingFaceRow& row, io::Json& json) {
  const auto& keys = row.keys;
  const auto& moe = m.moe;
  // An own width of experts may be the class's only width.
  put(json, keys.moe.feed_forward.empty() ? keys.feed_forward : keys.moe.feed_forward,
      m.expert_width());
  put(json, keys.moe.normalise, moe.normalise);
  put(json, keys.moe.scaling, moe.scaling);
  json.erase(std::string(keys.moe.experts_too));
  put(json, keys.moe.experts, moe.experts);
  put(json, keys.moe.top_k, moe.top_k);
  put(json, keys.moe.shared_experts, moe.shared_experts);
  put(json, keys.moe.shared_feed_forward, m.shared_width());
  put(json, keys.moe.groups, moe.groups.groups);
  put(json, keys.moe.groups_used, moe.groups.used);
  put(json, keys.moe.group_method,
      moe.groups.groups > 1 ? "group_limited_greedy" : "greedy");
  put(json, keys.moe.dense_layers, moe.dense_layers);
  put(json, keys.moe.every, moe.every);
  std::vector<std::int64_t> dense = moe.mlp_layers;
  if (keys.moe.dense_layers.empty())
    for (std::int64_t layer = 0; layer < moe.dense_layers; ++layer)
      if (std::find(dense.begin(), dense.end(), layer) == dense.end())
        dense.push_back(layer);
  put(json, keys.moe.mlp_layers, dense);
}

void require_expressible_experts(const ModelConfig& m, const HuggingFaceRow& row) {
  const auto& moe = m.moe;
  const auto needs = [&](bool expressible, std::string_view key, const auto& value) {
    require(
        expressible, Status::bad_content,
        "{} = {} is unknown to {}: the model cannot be written as a Hugging Face folder",
        key, value, row.class_name);
  };
  const auto& keys = row.keys;
  needs(moe.dense_layers == 0 || !keys.moe.dense_layers.empty() ||
            !keys.moe.mlp_layers.empty(),
        "model.moe.dense_layers", moe.dense_layers);
  needs(moe.every == 1 || !keys.moe.every.empty(), "model.moe.every", moe.every);
  needs(moe.groups.groups == 1 || !keys.moe.groups.empty(), "model.moe.groups",
        moe.groups.groups);
  needs(moe.scaling == 1 || !keys.moe.scaling.empty(), "model.moe.scaling", moe.scaling);
  const auto word = [](bool flag) { return flag ? "true" : "false"; };
  const bool biased = moe.choice_bias || moe.bias_update_rate > 0;
  const bool sigmoid = moe.router == kernels::RouterScore::sigmoid;
  needs(moe.router == row.router.score, "model.moe.router",
        sigmoid ? "sigmoid" : "softmax");
  needs(biased == row.router.choice_bias, "model.moe.choice_bias", word(biased));
  needs(moe.normalise == row.defaults.moe.normalise || !keys.moe.normalise.empty(),
        "model.moe.normalise", word(moe.normalise));
  needs(moe.groups.groups == 1 || moe.groups.counted == row.router.group_counts,
        "model.moe.group_counts", moe.groups.counted);
  require(
      moe.groups.groups == 1 ||
          moe.experts / moe.groups.groups >= row.router.group_counts,
      Status::bad_content,
      "model.moe.groups = {} leaves fewer experts in a group than the {} that {} judges "
      "it by: the model cannot be written as a Hugging Face folder",
      moe.groups.groups, row.router.group_counts, row.class_name);
  needs(!keys.moe.shared_feed_forward.empty() ||
            m.shared_width() == moe.shared_experts * m.expert_width(),
        "model.moe.shared_feed_forward", moe.shared_feed_forward);
  needs(m.shared_width() > 0 || keys.moe.shared_feed_forward.empty(),
        "model.moe.shared_feed_forward", moe.shared_feed_forward);
  needs(moe.shared_experts == 0 || !keys.moe.shared_experts.empty() ||
            !keys.moe.shared_feed_forward.empty(),
        "model.moe.shared_experts", moe.shared_experts);
  require(moe.capacity_factor == 0, Status::bad_content,
          "model.moe.capacity_factor = {} drops tokens, which transformers does not",
          moe.capacity_factor);
}

bool same_experts(const ModelConfig& a, const ModelConfig& b) {
  if (!a.has_experts() || !b.has_experts()) return a.has_experts() == b.has_experts();
  if (choice_of(a) != choice_of(b) || a.layers != b.layers) return false;
  for (std::int64_t layer = 0; layer < a.layers; ++layer)
    if (a.is_moe(layer) != b.is_moe(layer)) return false;
  return true;
}

}  // namespace trireme::convert
