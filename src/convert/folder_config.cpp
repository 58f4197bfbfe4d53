// config.json of a Hugging Face folder: the model that it describes, and back.
// SPDX-License-Identifier: Apache-2.0
#include "convert/folder_config.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "convert/activation_config.hpp"
#include "convert/config_fields.hpp"
#include "convert/expert_config.hpp"
#include "convert/latent_config.hpp"
#include "convert/linear_config.hpp"
#include "convert/rope_config.hpp"
#include "convert/window_config.hpp"
#include "io/json_members.hpp"
#include "io/plain_file.hpp"

namespace trireme::convert {
namespace {

using model::HuggingFaceRow;
using model::ModelConfig;

constexpr std::int64_t most_config_bytes = std::int64_t{1} << 22;
constexpr int config_depth = 32;
constexpr auto text_key = "text_config";

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array dtype_names = {
    DTypeName{"float32", DType::f32}, DTypeName{"bfloat16", DType::bf16},
    DTypeName{"float16", DType::f16}, DTypeName{"float64", DType::f64}};

std::string model_types() {
  std::string all;
  for (const HuggingFaceRow& row : model::hugging_face_rows)
    all += (all.empty() ? "" : ", ") + std::string(row.model_type);
  return all;
}

// By family and class: each must be one that this program has, and they belong together.
const HuggingFaceRow& read_row(const ConfigFields& fields) {
  require(fields.has("model_type"), Status::bad_content, "{}: 'model_type' is missing",
          fields.source());
  const std::string type = fields.text("model_type", "");
  const auto* const row =
      std::find_if(model::hugging_face_rows.begin(), model::hugging_face_rows.end(),
                   [&](const HuggingFaceRow& each) { return each.model_type == type; });
  if (row == model::hugging_face_rows.end())
    fields.refuse("model_type", "is none that this program has: " + model_types());
  if (!fields.has("architectures")) return *row;
  const io::Json& classes = fields.value("architectures");
  if (!classes.is_array() || classes.empty() || !classes[0].is_string() ||
      classes[0].get<std::string>() != row->class_name)
    fields.refuse("architectures", format("does not belong to model_type \"{}\": {} was "
                                          "expected",
                                          type, row->class_name));
  return *row;
}

// Of a model with other parts than text (vision), whose configuration stands in an object
// of its own: makes `json` that of the text alone. Whether it was one.
bool take_text_part(io::Json& json, const std::string& source) {
  const ConfigFields whole(json, source);
  if (!whole.has("model_type") || !whole.has(text_key)) return false;
  const std::string type = whole.text("model_type", "");
  for (const HuggingFaceRow& row : model::hugging_face_rows) {
    if (row.outer_type.empty() || row.outer_type != type) continue;
    io::Json text = whole.object(text_key).json();
    text["model_type"] = row.model_type;
    text["architectures"] = {row.class_name};
    for (const char* key : {"tie_word_embeddings", "dtype", "torch_dtype"})
      if (whole.has(key)) text[key] = whole.value(key);
    json = std::move(text);
    return true;
  }
  return false;
}

// Other names of keys that the class reads as well; those of experts are in its row.
std::span<const model::KeyAlias> aliases_of(const HuggingFaceRow& row) {
  if (row.model_type == "gpt2") return model::hugging_face::gpt2_aliases;
  return {};
}

// Gives keys that the class also reads under other names their own. Whether there was
// one.
bool take_aliases(io::Json& json, const std::string& source, const HuggingFaceRow& row) {
  bool taken = false;
  for (const auto& [alias, key] : aliases_of(row)) {
    const ConfigFields fields(json, source);
    if (!fields.has(alias)) continue;
    if (fields.has(key) && fields.value(key) != fields.value(alias))
      fields.refuse(alias, format("differs from '{}' = {}, of which it is another name: "
                                  "remove one of them",
                                  key, fields.value(key).dump()));
    json[std::string(key)] = fields.value(alias);
    json.erase(std::string(alias));
    taken = true;
  }
  return taken;
}

void check_neutral(const ConfigFields& fields, const HuggingFaceRow& row) {
  if (!fields.flag("is_causal", true))
    fields.refuse("is_causal",
                  "is not available: this program computes attention to the "
                  "token itself and earlier ones only");
  for (const model::NeutralKey& neutral : row.neutral)
    if (fields.has(neutral.key) &&
        fields.value(neutral.key) != io::Json::parse(neutral.value))
      fields.refuse(neutral.key, format("is not available: this program computes {} only",
                                        neutral.value));
}

std::optional<DType> read_dtype(const ConfigFields& fields) {
  const std::string_view key = fields.has("dtype") ? "dtype" : "torch_dtype";
  if (!fields.has(key)) return {};
  const std::string name = fields.text(key, "");
  for (const DTypeName& each : dtype_names)
    if (each.name == name) return each.dtype;
  fields.refuse(key, "is no type of weights that this program has");
}

// Null or 0: none.
double read_cap(const ConfigFields& fields, std::string_view key, double fallback) {
  if (key.empty() || (fields.is_given(key) && !fields.has(key))) return 0;
  if (fields.has(key) && fields.value(key) == 0) return 0;
  return fields.real(key, fallback, 0, 1e6);
}

// Null: none. Numbers below 0 count from the end, as PyTorch has it; one beyond the
// vocabulary is no token.
std::int64_t read_pad_token(const ConfigFields& fields, const HuggingFaceRow& row,
                            std::int64_t vocabulary) {
  const bool is_null = fields.is_given(pad_key) && !fields.has(pad_key);
  if (!row.leaves_padding || is_null) return -1;
  std::int64_t token = row.defaults.pad_token;
  if (fields.has(pad_key)) {
    token = fields.integer(pad_key, 0, INT32_MIN, INT32_MAX);
    if (token < 0) token += vocabulary;
  }
  return token >= 0 && token < vocabulary ? token : -1;
}

void read_sizes(const ConfigFields& fields, const HuggingFaceRow& row, ModelConfig& m) {
  const auto& keys = row.keys;
  const auto& d = row.defaults;
  constexpr std::int64_t most_width = 1 << 24, most_heads = 1 << 20;
  m.layers = fields.integer(keys.layers, d.layers, 1, 100000);
  m.hidden = fields.integer(keys.hidden, d.hidden, 1, most_width);
  m.heads = fields.integer(keys.heads, d.heads, 1, most_heads);
  const bool kv_null = fields.is_given(keys.kv_heads) && !fields.has(keys.kv_heads);
  const std::int64_t kv = kv_null || d.kv_heads == 0 ? m.heads : d.kv_heads;
  m.kv_heads = fields.integer(keys.kv_heads, kv, 1, most_heads);
  require(m.heads % m.kv_heads == 0, Status::bad_content,
          "{}: '{}' = {} must divide '{}' = {}", fields.source(), keys.kv_heads,
          m.kv_heads, keys.heads, m.heads);
  const bool width_null =
      fields.is_given(keys.head_width) && !fields.has(keys.head_width);
  const std::int64_t width =
      fields.integer(keys.head_width, width_null ? 0 : d.head_width, 1, 1 << 16);
  // Heads of latent attention have widths of their own (read_latent).
  const bool divides = m.hidden % m.heads == 0;
  require(divides || width > 0 || m.row().latent, Status::bad_content,
          "{}: '{}' = {} must divide '{}' = {}", fields.source(), keys.heads, m.heads,
          keys.hidden, m.hidden);
  m.own_head_width = divides && width == m.hidden / m.heads ? 0 : width;
  m.feed_forward = fields.integer(
      keys.feed_forward, d.feed_forward > 0 ? d.feed_forward : 4 * m.hidden, 1, 1 << 28);
  m.vocabulary = fields.integer("vocab_size", d.vocabulary, 1, INT32_MAX);
  m.residual.pad_token = read_pad_token(fields, row, m.vocabulary);
  m.sequence = fields.integer(keys.positions, d.positions, 1, 1 << 27);
  m.own_positions = m.sequence;
  if (!keys.qk_norm.empty()) m.attention.qk_norm = fields.flag(keys.qk_norm, false);
  if (!keys.mlp_bias.empty()) m.mlp.bias = fields.flag(keys.mlp_bias, false);
  m.residual.parallel = fields.flag(keys.parallel_residual, true);
  m.logit_cap = read_cap(fields, keys.logit_cap, d.logit_cap);
  m.attention.cap = read_cap(fields, keys.attention_cap, d.attention_cap);
  m.attention.query_scalar = fields.real(keys.query_scalar, d.query_scalar, 0, 1e9);
  if (!fields.flag(keys.scale_by_width, true)) m.attention.query_scalar = 1;
  m.attention.scale_by_layer = fields.flag(keys.scale_by_layer, false);
  if (m.has_experts()) read_experts(fields, row, m);
}

}  // namespace

io::Json parse_config(const std::string& text, std::string_view source) {
  io::Json json = io::Json::object();
  try {
    io::for_each_member(
        text, 1, config_depth,
        [&](const auto&, const auto& key, const io::Json& value) { json[key] = value; });
  } catch (const io::JsonMistake& mistake) {
    fail(Status::bad_content, "{}: is no JSON: {}", source, mistake.what());
  }
  return json;
}

FolderConfig parse_folder_config(const std::string& text, const std::string& source) {
  FolderConfig config;
  config.text = text;
  io::Json json = parse_config(text, source);
  if (take_text_part(json, source)) config.text = json.dump(2) + "\n";
  const ConfigFields fields(json, source);
  config.row = &read_row(fields);
  const HuggingFaceRow& row = *config.row;
  if (take_aliases(json, source, row)) config.text = json.dump(2) + "\n";
  check_neutral(fields, row);
  config.quantization = read_quantization(fields);
  ModelConfig& m = config.model;
  m.architecture = model::architecture_named(row.architecture);
  read_sizes(fields, row, m);
  read_activation(fields, row, m);
  if (m.row().free_own_bias)
    m.attention.own_bias = fields.flag(row.keys.attention_bias, true);
  else
    m.attention.bias = fields.flag(row.keys.attention_bias, false);
  m.norm_eps = fields.real(row.keys.norm_eps, row.defaults.norm_eps, 0, 1);
  m.initializer_range = fields.real("initializer_range", 0.02, 0, 10);
  m.tie_embeddings = fields.flag("tie_word_embeddings", row.defaults.tied);
  if (m.row().positions == model::Positions::rotary) {
    require(m.row().latent || m.head_width() % 2 == 0, Status::bad_content,
            "{}: heads have the width {}, and rotary positions need an even one", source,
            m.head_width());
    if (m.row().latent) read_latent_widths(fields, row, m);
    read_rope(fields, row, m);
    if (m.row().latent) read_latent_positions(fields, row, m);
  }
  if (m.has_linear()) read_linear(fields, m);
  read_window(fields, row, m);
  config.dtype = read_dtype(fields);
  return config;
}

FolderConfig read_folder_config(const std::string& folder) {
  const Directory at = Directory::to_read(folder);
  require(at.has(config_name), Status::missing_input,
          "{}: there is no {} here, which says what the model is", folder, config_name);
  const io::PlainFile file(at, config_name, io::Links::followed);
  return parse_folder_config(file.text(most_config_bytes), file.path());
}

std::string dropout_rates(const FolderConfig& config) {
  const io::Json json = parse_config(config.text, config_name);
  std::string rates;
  for (const char* key :
       {"embd_pdrop", "resid_pdrop", "hidden_dropout", "attn_pdrop", "attention_dropout"})
    if (json.contains(key) && json[key].is_number() && json[key] > 0)
      rates +=
          format("{}{} = {}", rates.empty() ? "" : ", ", key, json[key].get<double>());
  return rates;
}

bool can_say(const HuggingFaceRow& row, const ModelConfig& m) {
  return row.architecture == m.row().name && can_say_window(row, m) &&
         can_say_rope(row, m) &&
         (!m.attention.bias || !row.keys.attention_bias.empty()) &&
         (!row.hidden_of_heads || m.hidden % m.heads == 0);
}

const HuggingFaceRow* row_for(const ModelConfig& m) {
  for (const HuggingFaceRow& row : model::hugging_face_rows)
    if (can_say(row, m)) return &row;
  return nullptr;
}

}  // namespace trireme::convert
