// The table of meshes (tests/ranks/meshes.txt): reading it, and the decks it stands for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "config/deck_table.hpp"
#include "config/run_config.hpp"

namespace trireme::test {

// A line of the table: "RANKS MODEL [word ...]". A word key=value overrides a deck key;
// "+fp32" and "+bf16" run the line in those types too.
struct MeshLine {
  std::string text;
  int ranks = 0;
  std::string model;
  std::vector<std::string> overrides;
  bool fp32 = false, bf16 = false;
};

inline std::vector<MeshLine> read_mesh_table(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "cannot read {}", path);
  std::vector<MeshLine> lines;
  std::string text, word;
  while (std::getline(file, text)) {
    if (text.empty() || text[0] == '#') continue;
    MeshLine line;
    line.text = text;
    std::istringstream words(text);
    words >> line.ranks >> line.model;
    while (words >> word) {
      if (word == "+fp32") {
        line.fp32 = true;
      } else if (word == "+bf16") {
        line.bf16 = true;
      } else {
        line.overrides.push_back(word);
      }
    }
    lines.push_back(line);
  }
  return lines;
}

// The deck of a model of the table: awkward on purpose, with a prime vocabulary, few
// key/value heads, an odd feed-forward width and an odd number of layers.
inline std::string mesh_deck(const std::string& model) {
  std::string deck = R"(
run.steps = 20
model.layers = 7
model.hidden = 48
model.heads = 12
model.kv_heads = 4
model.feed_forward = 37
model.vocabulary = 53
model.sequence = 24
model.initializer_range = 0.2
model.z_loss = 1e-3
data.source = "synthetic"
batch.global = 12
optimizer.learning_rate = 3e-4
optimizer.clip = 1.0
parallel.bucket_bytes = "4 KiB"
precision.compute = "fp64"
)";
  const auto set = [&](const std::string& key, const std::string& value) {
    const auto at = deck.find(key + " = ");
    if (at == std::string::npos) {
      deck += key + " = " + value + "\n";
    } else {
      deck.replace(at, deck.find('\n', at) - at, key + " = " + value);
    }
  };
  if (model == "llama-tied") {
    set("model.tie_embeddings", "true");
    set("model.kv_heads", "1");
    set("model.vocabulary", "17");
  } else if (model == "gpt2-tied" || model == "gpt2") {
    set("model.architecture", "\"gpt2\"");
    set("model.kv_heads", "12");
    set("model.tie_embeddings", model == "gpt2" ? "false" : "true");
  } else if (model == "qwen2") {
    set("model.architecture", "\"qwen2\"");
    set("model.kv_heads", "2");
  } else if (model == "qwen3" || model == "qwen3-wide") {
    set("model.architecture", "\"qwen3\"");
    set("model.kv_heads", "2");
    set("model.head_width", model == "qwen3" ? "6" : "32");
    if (model == "qwen3-wide") set("model.logit_cap", "0.2");
    if (model == "qwen3") set("model.attention_bias", "true");
  } else if (model == "ramp") {  // five steps of half the sequences
    set("batch.ramp", "[\"6 until 720\"]");
  } else if (model == "chat") {
    set("model.kv_heads", "12");
  } else if (model == "dpo") {
    set("model.z_loss", "0.0");
    set("model.tie_embeddings", "true");
  } else if (model == "window" ||
             model == "packed") {  // shorter than a context rank's part, and longer
    set("model.kv_heads", "4");
    set("model.window", "5");
    set("model.layer_types",
        R"(["sliding_attention", "full_attention", "sliding_attention",
            "sliding_attention", "full_attention", "sliding_attention",
            "sliding_attention"])");
  } else if (model == "phi3") {
    set("model.architecture", "\"phi3\"");
    set("model.kv_heads", "3");  // which tensor ranks share, in one fused tensor
    set("model.window", "11");
    set("model.head_width", "6");
    set("model.rope.width", "4");
    set("model.rope.scaling", "\"longrope\"");
    set("model.rope.original", "8.0");
    set("model.rope.attention_factor", "1.19");
    set("model.rope.short_divisors", "[1.0, 1.0]");
    set("model.rope.long_divisors", "[1.5, 7.0]");
  } else if (model == "smollm3") {
    set("model.architecture", "\"smollm3\"");
    set("model.kv_heads", "2");
    set("model.rope.layers", "[1, 0, 1, 1, 0, 1, 1]");
    set("model.rope.sliding_theta", "100.0");
    set("model.window", "7");
    set("model.layer_types",
        R"(["full_attention", "sliding_attention", "sliding_attention",
            "full_attention", "full_attention", "sliding_attention",
            "full_attention"])");
  } else if (model == "groups") {
    set("optimizer.groups",
        "[\"model.embed_tokens.weight frozen\", \"*.mlp.* learning_rate=0.0001 "
        "weight_decay=0\", \"model.layers.1.* weight_decay=0.3\"]");
  } else if (model == "qwen3_moe") {
    set("model.architecture", "\"qwen3_moe\"");
    set("model.kv_heads", "2");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.normalise", "false");
    set("model.moe.expert_feed_forward", "19");
    set("model.moe.dense_layers", "1");
  } else if (model == "qwen2_moe") {
    set("model.architecture", "\"qwen2_moe\"");
    set("model.kv_heads", "2");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.expert_feed_forward", "19");
    set("model.moe.shared_feed_forward", "29");
    set("model.moe.mlp_layers", "[4]");
    set("model.moe.every", "2");
  } else if (model == "qwen3_5" || model == "qwen3_5-packed") {
    set("model.architecture", "\"qwen3_5\"");
    set("model.head_width", "6");
    set("model.rope.width", "2");
    set("model.linear.key_heads", "12");
    set("model.linear.value_heads", "24");
    set("model.linear.key_width", "8");
    set("model.linear.value_width", "6");
    // A first token's output is its value times q k, whose sign alone the norm behind it
    // sees where eps is small: 20 steps would amplify any rounding.
    set("model.norm_eps", "0.05");
    set("model.layer_types",
        R"(["linear_attention", "full_attention", "linear_attention", "linear_attention",
            "linear_attention", "full_attention", "linear_attention"])");
  } else if (model == "latent") {
    set("model.architecture", "\"deepseek_v3\"");
    set("model.kv_heads", "12");
    set("model.head_width", "10");
    set("model.latent.width", "14");
    set("model.latent.query_width", "18");
    set("model.rope.width", "4");
    set("model.latent.value_width", "8");
    set("model.attention_bias", "true");
    set("model.dropout.attention", "0.1");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.expert_feed_forward", "19");
    set("model.moe.shared_experts", "1");
    set("model.moe.dense_layers", "5");
    set("model.moe.router", "\"sigmoid\"");
    set("model.moe.groups", "3");
    set("model.moe.groups_used", "2");
  } else if (model == "deepseek_v2") {
    set("model.architecture", "\"deepseek_v2\"");
    set("model.kv_heads", "12");
    set("model.head_width", "10");
    set("model.latent.width", "14");
    set("model.rope.width", "4");
    set("model.latent.value_width", "8");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.expert_feed_forward", "19");
    set("model.moe.shared_experts", "2");
    set("model.moe.dense_layers", "1");
    set("model.moe.normalise", "false");
    set("model.moe.scaling", "1.5");
    set("model.moe.groups", "4");
    set("model.moe.groups_used", "2");
    set("model.moe.group_counts", "1");
    set("model.mlp_bias", "true");
  } else if (model == "glm4_moe") {
    set("model.architecture", "\"glm4_moe\"");
    set("model.attention_bias", "true");
    set("model.qk_norm", "true");
    set("model.head_width", "6");
    set("model.rope.width", "2");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.expert_feed_forward", "19");
    set("model.moe.shared_experts", "1");
    set("model.moe.dense_layers", "2");
    set("model.moe.router", "\"sigmoid\"");
    set("model.moe.choice_bias", "true");
    set("model.moe.groups", "3");
    set("model.moe.groups_used", "2");
  } else if (model == "gemma2") {
    set("model.architecture", "\"gemma2\"");
    set("model.tie_embeddings", "true");
    set("model.kv_heads", "4");
    set("model.head_width", "6");
    set("model.query_scalar", "5.0");
    set("model.attention_cap", "1.5");
    set("model.logit_cap", "3.0");
    set("model.window", "5");
    set("model.layer_types",
        R"(["sliding_attention", "full_attention", "sliding_attention", "full_attention",
            "sliding_attention", "full_attention", "sliding_attention"])");
  } else if (model == "gemma3" || model == "olmo3") {
    set("model.architecture", model == "gemma3" ? "\"gemma3\"" : "\"olmo2\"");
    set("model.kv_heads", "4");
    set("model.head_width", "6");
    set("model.rope_theta", "1e4");
    set("model.rope.sliding_theta", "100.0");
    set("model.window", "7");
    set("model.layer_types",
        R"(["sliding_attention", "full_attention", "sliding_attention", "full_attention",
            "sliding_attention", "full_attention", "sliding_attention"])");
  } else if (model == "gpt_neox" || model == "gpt_neox-sequential") {
    set("model.architecture", "\"gpt_neox\"");
    if (model == "gpt_neox-sequential") set("model.parallel_residual", "false");
    set("model.kv_heads", "12");
    set("model.rope.width", "2");
  } else if (model == "dropout") {  // biases that are dropped too, odd rows of masks
    set("model.architecture", "\"gpt2\"");
    set("model.kv_heads", "12");
    set("model.dropout.residual", "0.2");
    set("model.dropout.embedding", "0.1");
    set("model.dropout.attention", "0.15");
  } else if (model == "gpt_oss") {
    set("model.architecture", "\"gpt_oss\"");
    set("model.kv_heads", "4");
    set("model.head_width", "6");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.expert_feed_forward", "19");
    set("model.moe.z_loss", "0.01");
    set("model.window", "5");
    set("model.layer_types",
        R"(["sliding_attention", "full_attention", "sliding_attention", "full_attention",
            "sliding_attention", "full_attention", "sliding_attention"])");
  } else if (model == "gemma") {
    set("model.embedding.pad_token", "3");
    set("model.architecture", "\"gemma\"");
    set("model.tie_embeddings", "true");
    set("model.head_width", "6");
    set("model.mlp_bias", "true");
  } else if (model == "mixtral" || model == "deepseek") {
    set("model.architecture", model == "mixtral" ? "\"mixtral\"" : "\"deepseek_moe\"");
    set("model.moe.experts", "12");
    set("model.moe.top_k", "3");
    set("model.moe.aux_loss", "0.1");
    set("model.moe.z_loss", "0.01");
    if (model == "deepseek") {
      set("model.moe.shared_experts", "1");
      set("model.moe.dense_layers", "1");
      set("model.moe.expert_feed_forward", "19");
      set("model.moe.router", "\"sigmoid\"");
      set("model.moe.scaling", "1.5");
      set("model.moe.choice_bias", "true");
      set("model.moe.groups", "4");
      set("model.moe.groups_used", "2");
      set("model.moe.bias_update_rate", "0.01");
    }
  } else {
    require(model == "llama", "no model '{}'", model);
  }
  return deck;
}

inline config::RunConfig mesh_config(const MeshLine& line, const std::string& compute) {
  auto overrides = line.overrides;
  overrides.push_back("precision.compute=" + compute);
  const auto deck =
      io::Deck::parse(mesh_deck(line.model), line.text, overrides, config::deck_table());
  config::RunConfig config = config::make_run_config(deck, line.ranks);
  // Rules tie packing to data that have documents; here the rows are made by
  // mesh_run.cpp.
  if (line.model.ends_with("packed")) config.data.packing = io::Packing::concatenate;
  if (line.model == "chat") {
    config.data.kind = io::SourceKind::chat;
    config.data.packing = io::Packing::best_fit;
  }
  if (line.model == "dpo")
    config.train = {config::Objective::dpo, {.beta = 0.3, .label_smoothing = 0.1}};
  return config;
}

}  // namespace trireme::test
