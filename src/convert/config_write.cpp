// config.json of a model, for transformers to read.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/text.hpp"
#include "convert/folder_config.hpp"
#include "convert/rope_config.hpp"
#include "convert/window_config.hpp"
#include "io/json_fields.hpp"

namespace trireme::convert {
namespace {

using io::Json;
using model::HuggingFaceRow;
using model::ModelConfig;

std::string_view dtype_text(DType dtype) {
  switch (dtype) {
    case DType::f64: return "float64";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    default: return "float32";
  }
}

void put(Json& json, std::string_view key, const Json& value) {
  if (!key.empty()) json[std::string(key)] = value;
}

void write_sizes(const ModelConfig& m, const HuggingFaceRow& row, Json& json) {
  const auto& keys = row.keys;
  put(json, keys.layers, m.layers);
  put(json, keys.hidden, m.hidden);
  put(json, keys.heads, m.heads);
  put(json, keys.kv_heads, m.kv_heads);
  put(json, keys.head_width, m.head_width());
  put(json, keys.feed_forward, m.feed_forward);
  put(json, keys.positions, m.sequence);
  put(json, keys.norm_eps, m.norm_eps);
  put(json, keys.activation, std::string(row.activation));
  if (m.has_experts()) {
    // An own width of experts may be the class's only width.
    if (keys.expert_feed_forward.empty())
      put(json, keys.feed_forward, m.expert_width());
    else
      put(json, keys.expert_feed_forward, m.expert_width());
    put(json, keys.normalise, m.moe.normalise);
    json.erase(std::string(keys.experts_too));
    put(json, keys.experts, m.moe.experts);
    put(json, keys.top_k, m.moe.top_k);
  }
  json["vocab_size"] = m.vocabulary;
  json["initializer_range"] = m.initializer_range;
  json["tie_word_embeddings"] = m.tie_embeddings;
  write_window(m, row, json);
  for (const model::NeutralKey& neutral : row.neutral)
    json[std::string(neutral.key)] = Json::parse(neutral.value);
}

// What a family's class cannot say of a model.
void require_expressible(const ModelConfig& m, const HuggingFaceRow* row) {
  require(
      row != nullptr, Status::bad_content,
      "model.architecture = \"{}\"{} has no class in transformers: it cannot be written "
      "as a Hugging Face folder",
      m.row().name, m.window > 0 ? " with model.window" : "");
  require(
      m.activation() == m.row().activation, Status::bad_content,
      "model.activation = \"{}\" is not that of {}, whose class has {} only: the model "
      "cannot be written as a Hugging Face folder",
      kernels::row_of(m.activation()).name, m.row().name, row->activation);
  require(row->keys.head_width.size() > 0 || m.own_head_width == 0 ||
              m.own_head_width * m.heads == m.hidden,
          Status::bad_content, "model.head_width = {} cannot be written for {}",
          m.own_head_width, row->model_type);
  require(m.logit_cap == 0, Status::bad_content,
          "model.logit_cap = {} is unknown to {}: the model cannot be written as a "
          "Hugging Face folder",
          m.logit_cap, row->class_name);
  require(m.moe.dense_layers == 0, Status::bad_content,
          "model.moe.dense_layers = {} cannot be written for {}", m.moe.dense_layers,
          row->model_type);
  require(m.moe.capacity_factor == 0, Status::bad_content,
          "model.moe.capacity_factor = {} drops tokens, which transformers does not",
          m.moe.capacity_factor);
}

// Whether two models are the same function of tokens, however long their sequences.
bool same_model(const ModelConfig& a, const ModelConfig& b) {
  const bool same_experts =
      !a.has_experts() ||
      (a.moe.experts == b.moe.experts && a.moe.top_k == b.moe.top_k &&
       a.moe.normalise == b.moe.normalise && a.expert_width() == b.expert_width());
  return a.architecture == b.architecture && a.layers == b.layers &&
         a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_width() == b.head_width() && a.feed_forward == b.feed_forward &&
         a.vocabulary == b.vocabulary && a.norm_eps == b.norm_eps &&
         a.tie_embeddings == b.tie_embeddings && a.logit_cap == b.logit_cap &&
         a.window == b.window && a.layer_types == b.layer_types &&
         a.rope_theta == b.rope_theta && a.rope_scaling == b.rope_scaling && same_experts;
}

}  // namespace

std::string folder_config_text(const ModelConfig& m, DType dtype,
                               const std::string& kept) {
  const HuggingFaceRow* row = row_for(m);
  require_expressible(m, row);
  Json json = Json::object();
  bool is_kept = false;
  if (!kept.empty()) {
    const FolderConfig before = parse_folder_config(kept, "the kept config.json");
    json = Json::parse(kept);
    if (before.model.architecture == m.architecture && can_say_window(*before.row, m))
      row = before.row;
    is_kept = same_model(before.model, m) && m.sequence <= before.model.sequence;
  }
  if (!is_kept) {
    json["architectures"] = {row->class_name};
    json["model_type"] = row->model_type;
    write_sizes(m, *row, json);
    if (m.row().positions == model::Positions::rotary) write_rope(m, json);
  }
  const auto names_type = [&](const char* key) {
    return !json.contains(key) || json[key] == dtype_text(dtype);
  };
  if (is_kept && names_type("dtype") && names_type("torch_dtype")) return kept;
  if (!is_kept || json.contains("dtype")) json["dtype"] = dtype_text(dtype);
  if (!is_kept || json.contains("torch_dtype")) json["torch_dtype"] = dtype_text(dtype);
  return json.dump(2) + "\n";
}

}  // namespace trireme::convert
