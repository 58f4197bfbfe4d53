// config.json of a model, for transformers to read.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "convert/activation_config.hpp"
#include "convert/expert_config.hpp"
#include "convert/folder_config.hpp"
#include "convert/latent_config.hpp"
#include "convert/linear_config.hpp"
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
  put(json, keys.positions,
      m.any_length() ? static_cast<std::int64_t>(m.rope_scaling.original)
                     : m.positions());
  put(json, keys.norm_eps, m.norm_eps);
  put(json, keys.activation, std::string(activation_name(row, m)));
  put(json, keys.qk_norm, m.attention.qk_norm);
  put(json, keys.mlp_bias, m.mlp.bias);
  put(json, keys.parallel_residual, m.residual.parallel);
  const auto put_cap = [&](std::string_view key, double cap) {
    put(json, key, cap > 0 ? Json(cap) : Json());
  };
  put_cap(keys.logit_cap, m.logit_cap);
  put_cap(keys.attention_cap, m.attention.cap);
  if (row.leaves_padding)
    put(json, pad_key, m.residual.pad_token >= 0 ? Json(m.residual.pad_token) : Json());
  put(json, keys.query_scalar,
      m.attention.query_scalar > 0
          ? Json(static_cast<std::int64_t>(m.attention.query_scalar))
          : Json(m.head_width()));
  put(json, keys.scale_by_width, m.attention.query_scalar == 0);
  put(json, keys.scale_by_layer, m.attention.scale_by_layer);
  if (m.row().latent) write_latent(m, row, json);
  if (m.has_experts()) write_experts(m, row, json);
  json["vocab_size"] = m.vocabulary;
  json["initializer_range"] = m.initializer_range;
  json["tie_word_embeddings"] = m.tie_embeddings;
  put(json, keys.attention_bias,
      m.row().free_own_bias ? m.attention.own_bias : m.attention.bias);
  write_window(m, row, json);
  if (m.has_linear()) write_linear(m, json);
  for (const model::NeutralKey& neutral : row.neutral)
    json[std::string(neutral.key)] = Json::parse(neutral.value);
}

// The keys of a model that not every class of its architecture has, for messages.
std::string special_keys(const ModelConfig& m) {
  std::string keys;
  const auto add = [&](bool is_set, std::string_view key) {
    if (is_set) keys += format("{} {}", keys.empty() ? " with" : " and", key);
  };
  add(m.window > 0, "model.window");
  add(m.attention.bias, "model.attention_bias");
  add(m.rope_width > 0, "model.rope.width");
  add(!m.rope_layers.empty(), "model.rope.layers");
  add(m.hidden % m.heads != 0, "a model.hidden that is no multiple of model.heads");
  add(m.sliding_rope_theta > 0, "model.rope.sliding_theta");
  add(m.rope_scaling.kind != kernels::RopeScalingKind::none, "model.rope.scaling");
  return keys;
}

void require_expressible_by(const ModelConfig& m, const HuggingFaceRow* row) {
  require(
      row != nullptr, Status::bad_content,
      "model.architecture = \"{}\"{} has no class in transformers: it cannot be written "
      "as a Hugging Face folder",
      m.row().name, special_keys(m));
  require(
      !activation_name(*row, m).empty(), Status::bad_content,
      "model.activation = \"{}\" is none that {} can have: the model cannot be written "
      "as a Hugging Face folder",
      kernels::row_of(m.activation()).name, row->class_name);
  require(m.row().latent || row->keys.head_width.size() > 0 || m.own_head_width == 0 ||
              m.own_head_width * m.heads == m.hidden,
          Status::bad_content, "model.head_width = {} cannot be written for {}",
          m.own_head_width, row->model_type);
  const auto& keys = row->keys;
  require((m.attention.cap == 0 || !keys.attention_cap.empty()) &&
              (m.attention.query_scalar == 0 || !keys.query_scalar.empty() ||
               (m.attention.query_scalar == 1 && !keys.scale_by_width.empty())) &&
              (!m.attention.scale_by_layer || !keys.scale_by_layer.empty()),
          Status::bad_content,
          "model.attention_cap = {}, model.query_scalar = {} and "
          "model.attention.scale_by_layer = "
          "{} are unknown to {}: the model cannot be written as a Hugging Face folder",
          m.attention.cap, m.attention.query_scalar, m.attention.scale_by_layer,
          row->class_name);
  require(m.logit_cap == 0 || !row->keys.logit_cap.empty(), Status::bad_content,
          "model.logit_cap = {} is unknown to {}: the model cannot be written as a "
          "Hugging Face folder",
          m.logit_cap, row->class_name);
  require(
      !m.mlp.bias || !row->keys.mlp_bias.empty(), Status::bad_content,
      "model.mlp_bias is unknown to {}: the model cannot be written as a Hugging Face "
      "folder",
      row->class_name);
  require(m.attention.latent.score_factor == 1 || m.rope_scaling.factor > 1,
          Status::bad_content,
          "model.latent.score_factor = {} cannot be written without model.rope.factor",
          m.attention.latent.score_factor);
  require(!m.has_linear() || m.activation() == m.row().activation, Status::bad_content,
          "model.activation = \"{}\" would be that of linear attention's convolution, "
          "too, in {}: the model cannot be written as a Hugging Face folder",
          kernels::row_of(m.activation()).name, row->class_name);
  require(m.attention.query_scalar == std::floor(m.attention.query_scalar),
          Status::bad_content,
          "model.query_scalar = {} is no integer, which {} asks for: the model cannot be "
          "written as a Hugging Face folder",
          m.attention.query_scalar, row->class_name);
  require(m.residual.pad_token < 0 || row->leaves_padding, Status::bad_content,
          "model.embedding.pad_token = {} is trained by {}: the model cannot be written "
          "as a Hugging Face folder",
          m.residual.pad_token, row->class_name);
  if (m.rotary()) require_expressible_rope(m, *row);
  if (m.row().latent) require_expressible_latent(m, *row);
  if (m.has_experts()) require_expressible_experts(m, *row);
}

// Whether two models are the same function of tokens, however long their sequences.
bool same_model(const ModelConfig& a, const ModelConfig& b) {
  return a.architecture == b.architecture && a.layers == b.layers &&
         a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_width() == b.head_width() && a.feed_forward == b.feed_forward &&
         a.vocabulary == b.vocabulary && a.norm_eps == b.norm_eps &&
         a.tie_embeddings == b.tie_embeddings && a.logit_cap == b.logit_cap &&
         a.window == b.window && a.layer_types == b.layer_types &&
         a.attention.bias == b.attention.bias &&
         a.attention.own_bias == b.attention.own_bias &&
         a.activation() == b.activation() && a.rope_theta == b.rope_theta &&
         a.rope_scaling == b.rope_scaling && a.rope_width == b.rope_width &&
         a.sliding_rope_theta == b.sliding_rope_theta && a.rope_layers == b.rope_layers &&
         a.attention.cap == b.attention.cap &&
         a.attention.query_scalar == b.attention.query_scalar &&
         a.attention.scale_by_layer == b.attention.scale_by_layer &&
         a.attention.qk_norm == b.attention.qk_norm && a.mlp.bias == b.mlp.bias &&
         a.residual.parallel == b.residual.parallel && same_latent(a, b) &&
         same_linear(a, b) && same_experts(a, b);
}

}  // namespace

void require_expressible(const ModelConfig& m) { require_expressible_by(m, row_for(m)); }

std::string why_not_expressible(const ModelConfig& m) try {
  require_expressible(m);
  return "";
} catch (const Error& error) {
  return error.what();
}

std::string folder_config_text(const ModelConfig& m, DType dtype,
                               const std::string& kept_file) {
  const HuggingFaceRow* row = row_for(m);
  require_expressible_by(m, row);
  Json json = Json::object();
  bool is_kept = false, is_quantized = false;
  std::string kept;
  if (!kept_file.empty()) {
    const FolderConfig before = parse_folder_config(kept_file, "the kept config.json");
    kept = before.text;  // of a model with other parts that of its text
    json = Json::parse(kept);
    json.erase("quantization_config");  // what is written is not quantized
    if (can_say(*before.row, m)) row = before.row;
    is_kept = same_model(before.model, m) &&
              (m.any_length() || m.positions() <= before.model.positions());
    is_quantized = before.quantization.kind != Quantization::Kind::none;
  }
  // Left out, they would be the class's own tokens.
  if (kept.empty()) json["bos_token_id"] = json["eos_token_id"] = nullptr;
  if (!is_kept) {
    json["architectures"] = {row->class_name};
    json["model_type"] = row->model_type;
    write_sizes(m, *row, json);
    if (m.rotary()) write_rope(m, *row, json);
    if (m.row().latent) write_latent(m, *row, json);
  }
  const auto names_type = [&](const char* key) {
    return !json.contains(key) || json[key] == dtype_text(dtype);
  };
  if (is_kept && !is_quantized && names_type("dtype") && names_type("torch_dtype"))
    return kept;
  if (!is_kept || json.contains("dtype")) json["dtype"] = dtype_text(dtype);
  if (!is_kept || json.contains("torch_dtype")) json["torch_dtype"] = dtype_text(dtype);
  return json.dump(2) + "\n";
}

}  // namespace trireme::convert
