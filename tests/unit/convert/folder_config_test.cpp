// config.json: what it means by family, what is refused, and the way back.
// SPDX-License-Identifier: Apache-2.0
#include "convert/folder_config.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "config/start_model.hpp"
#include "kernels/math/rope.hpp"

namespace trireme::convert {
namespace {

// A tiny llama with further keys.
std::string llama(const std::string& more = "", const std::string& type = "llama",
                  const std::string& theta = R"("rope_theta":10000.0,)") {
  return R"({"model_type":")" + type + R"(",)" + theta +
         R"("hidden_size":24,"num_hidden_layers":2,"num_attention_heads":4,)"
         R"("num_key_value_heads":2,"intermediate_size":40,"vocab_size":67,)"
         R"("max_position_embeddings":64)" +
         (more.empty() ? "" : "," + more) + "}";
}

FolderConfig parse(const std::string& text) { return parse_folder_config(text, "c"); }

TEST(FolderConfig, ReadsOlderAndNewerKeysOfPositions) {
  const auto older = parse(llama(R"("rope_scaling":{"type":"linear","factor":4.0})"));
  const auto newer = parse(llama(
      R"("rope_parameters":{"rope_type":"linear","factor":4.0,"rope_theta":10000.0})",
      "llama", ""));
  EXPECT_EQ(older.model.rope_theta, 1e4);
  EXPECT_EQ(older.model.rope_scaling.factor, 4);
  EXPECT_EQ(older.model.rope_scaling, newer.model.rope_scaling);
  EXPECT_EQ(parse(llama(R"("rope_scaling":null)")).model.rope_scaling,
            kernels::RopeScaling{});
  // Of another kind than ours beyond the last position only.
  EXPECT_EQ(
      parse(llama(R"("rope_scaling":{"type":"dynamic","factor":2})")).model.rope_scaling,
      kernels::RopeScaling{});
}

TEST(FolderConfig, AbsentKeysAreThoseOfTheClass) {
  const std::string bare = R"({"rope_theta":1e4,"model_type":")";
  const auto mistral = parse(bare + R"(mistral"})");
  EXPECT_EQ(mistral.model.kv_heads, 8);
  EXPECT_EQ(mistral.model.window, 4096);
  EXPECT_EQ(mistral.model.architecture, model::Architecture::llama);
  EXPECT_EQ(parse(bare + R"(llama"})").model.kv_heads, 32);
  EXPECT_EQ(parse(bare + R"(qwen3","hidden_size":1024})").model.own_head_width, 128);
  EXPECT_EQ(
      parse(bare + R"(qwen3","hidden_size":1024,"head_dim":null})").model.own_head_width,
      0);
  const auto gpt2 = parse(R"({"model_type":"gpt2"})");
  EXPECT_EQ(gpt2.model.feed_forward, 4 * 768);
  EXPECT_TRUE(gpt2.model.tie_embeddings);
  EXPECT_FALSE(parse(bare + R"(qwen2"})").model.tie_embeddings);
  EXPECT_EQ(parse(bare + R"(mixtral"})").model.moe.experts, 8);
  EXPECT_EQ(parse(bare + R"(mixtral"})").model.window, 0);
  EXPECT_EQ(parse(bare + R"(qwen2","sliding_window":8})").model.window, 0);
  const auto qwen2 = parse(
      bare +
      R"(qwen2","sliding_window":8,"use_sliding_window":true,"num_hidden_layers":30})");
  EXPECT_EQ(qwen2.model.window_of(27), 0) << "max_window_layers is 28";
  EXPECT_EQ(qwen2.model.window_of(28), 8);
}

TEST(FolderConfig, WhatIsNotComputedIsRefusedByName) {
  struct Case {
    std::string text, words;
  };
  const std::array cases = {
      Case{"{", "is no JSON"},
      Case{R"({"model_type":"llama","model_type":"llama"})", "comes twice"},
      Case{"{}", "'model_type' is missing"},
      Case{llama("", "bert"), "'model_type' = \"bert\""},
      Case{llama(R"("architectures":["MistralForCausalLM"])"), "'architectures'"},
      Case{llama("", "llama", ""), "'rope_theta' is missing"},
      Case{llama("", "llama", R"("rope_theta":NaN,)"), "is no JSON"},
      Case{llama("", "llama", R"("rope_theta":1e999,)"), "is no JSON"},
      Case{llama("", "llama", R"("rope_theta":-1,)"), "'rope_theta'"},
      Case{llama(R"("rope_scaling":{"type":"longrope","factor":2})"), "\"longrope\""},
      Case{llama(R"("rope_scaling":{"type":"linear"})"), "'rope_scaling.factor'"},
      Case{llama(R"("rope_scaling":{"type":"linear","factor":2,"wavy":1})"), "wavy"},
      Case{llama(R"("rope_parameters":{"rope_theta":5.0})"), "differs from"},
      Case{llama(R"("partial_rotary_factor":0.5)"), "'partial_rotary_factor' = 0.5"},
      Case{llama(R"("attention_bias":true)"), "'attention_bias' = true"},
      Case{llama(R"("mlp_bias":true)"), "'mlp_bias' = true"},
      Case{llama(R"("hidden_act":"relu")"), "'hidden_act' = \"relu\""},
      Case{llama(R"("quantization_config":{"quant_method":"gptq"})"), "quantized"},
      Case{llama(R"("head_dim":7)"), "width 7"},
      Case{llama(R"("head_dim":-1)"), "'head_dim'"},
      Case{llama(R"("rms_norm_eps":"small")"), "'rms_norm_eps'"},
      Case{llama(R"("dtype":"int4")"), "'dtype'"},
      Case{llama(R"("tie_word_embeddings":1)"), "'tie_word_embeddings'"},
      Case{R"({"model_type":"llama","rope_theta":1e4,"num_attention_heads":3})",
           "'num_attention_heads' = 3 must divide"},
      Case{R"({"model_type":"llama","rope_theta":1e4,"num_key_value_heads":5})",
           "'num_key_value_heads' = 5 must divide"},
      Case{R"({"model_type":"llama","rope_theta":1e4,"vocab_size":1e4})", "vocab_size"},
      Case{R"({"model_type":"gpt2","scale_attn_weights":false})", "scale_attn_weights"},
  };
  for (const auto& [text, words] : cases) {
    try {
      parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << text;
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

// Windows as text, layer by layer, and written again.
TEST(FolderConfig, WindowsAreThoseOfTheClass) {
  struct Case {
    std::string type, more;
    std::array<std::int64_t, 3> windows;
  };
  const std::string three = R"("num_hidden_layers":3,)";
  const std::string mixed =
      R"("layer_types":["full_attention","sliding_attention","full_attention"],)";
  const std::array cases = {
      Case{"llama", R"("sliding_window":5)", {0, 0, 0}},
      Case{"mistral", R"("sliding_window":5)", {5, 5, 5}},
      Case{"mistral", R"("sliding_window":null)", {0, 0, 0}},
      Case{"ministral", mixed + R"("sliding_window":5)", {0, 5, 0}},
      Case{"ministral", R"("sliding_window":5)", {5, 5, 5}},
      Case{"qwen2", mixed + R"("sliding_window":5)", {0, 0, 0}},
      Case{"qwen2", mixed + R"("use_sliding_window":true,"sliding_window":5)", {0, 5, 0}},
      Case{"qwen3",
           R"("use_sliding_window":true,"sliding_window":5,"max_window_layers":2)",
           {0, 0, 5}},
      Case{"qwen3_moe", R"("use_sliding_window":true,"sliding_window":5)", {5, 5, 5}},
      Case{"mixtral", R"("sliding_window":5)", {5, 5, 5}},
  };
  for (const auto& [type, more, windows] : cases) {
    const std::string two = R"("num_hidden_layers":2,)";
    std::string text = llama(more, type);
    text.replace(text.find(two), two.size(), three);
    const auto model = parse(text).model;
    const auto again = parse(folder_config_text(model, DType::f32, "")).model;
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const auto expected = windows[static_cast<std::size_t>(layer)];
      EXPECT_EQ(model.window_of(layer), expected) << text << layer;
      EXPECT_EQ(again.window_of(layer), expected) << text << layer;
    }
  }
  for (const auto* wrong :
       {R"("layer_types":["full_attention"],"sliding_window":5)",
        R"("layer_types":["chunked_attention","full_attention"])", R"("layer_types":7)",
        R"("sliding_window":-1)", R"("sliding_window":"all")"})
    EXPECT_THROW(parse(llama(wrong, "ministral")), Error) << wrong;
  EXPECT_THROW(
      parse(llama(R"("layer_types":["full_attention","sliding_attention"])", "mistral")),
      Error);
}

TEST(FolderConfig, UnknownKeysSurvive) {
  const std::string text = llama(R"("my_key":{"a":[1,2]},"eos_token_id":[2,3])");
  const auto config = parse(text);
  const std::string same = folder_config_text(config.model, DType::f32, text);
  EXPECT_NE(same.find("my_key"), std::string::npos);
  EXPECT_EQ(same.find("rope_parameters"), std::string::npos) << "written as it came";
  model::ModelConfig longer = config.model;
  longer.layers = 3;
  const std::string changed = folder_config_text(longer, DType::bf16, text);
  EXPECT_NE(changed.find("my_key"), std::string::npos);
  EXPECT_EQ(parse(changed).model.layers, 3);
  EXPECT_EQ(parse(changed).dtype, DType::bf16);
}

// Both ways through every family: config.json, and the deck's [model] section.
TEST(FolderConfig, EveryModelComesBack) {
  for (const auto& row : model::hugging_face_rows) {
    const bool gpt2 = row.model_type == "gpt2";
    auto before =
        gpt2 ? parse(R"({"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":3})")
             : parse(llama(R"("rope_scaling":{"rope_type":"yarn","factor":2.5},)"
                           R"("head_dim":10,"sliding_window":null)",
                           std::string(row.model_type)));
    const std::string text = folder_config_text(before.model, DType::f32, "");
    const auto lines = config::model_lines(before.model);
    EXPECT_EQ(config::model_lines(parse(text).model), lines) << text;
    std::vector<std::string> all = lines;
    all.insert(all.end(), {"run.steps=1", "batch.global=1", "batch.micro=1",
                           "data.source=\"synthetic\""});
    const auto deck = io::Deck::parse("", "deck", all, config::deck_table());
    EXPECT_EQ(config::model_lines(config::make_run_config(deck, 1).model), lines);
  }
}

TEST(FolderConfig, WhatTransformersLacksIsNotWritten) {
  model::ModelConfig model = parse(llama()).model;
  model.architecture = model::Architecture::deepseek_moe;
  EXPECT_THROW(folder_config_text(model, DType::f32, ""), Error);
}

// Frequencies that the classes of transformers compute, to the digits that are given.
TEST(RopeScaling, HasTheGoldenFrequencies) {
  using kernels::RopeScaling;
  using kernels::RopeScalingKind;
  struct Golden {
    int pair;
    double value;
  };
  const auto expect = [](const RopeScaling& s, double theta, int width,
                         std::initializer_list<Golden> values, double sum) {
    double all = 0;
    for (int i = 0; i < width / 2; ++i)
      all += kernels::math::rope_frequency(i, width / 2, theta, s);
    EXPECT_NEAR(all, sum, 1e-6 * sum);
    for (const auto& [pair, value] : values)
      EXPECT_NEAR(kernels::math::rope_frequency(pair, width / 2, theta, s), value,
                  2e-6 * value)
          << pair;
  };
  RopeScaling llama3{RopeScalingKind::llama3, 8, 1, 4, 8192};
  expect(llama3, 5e5, 128,
         {{1, 0.8146172},
          {28, 0.003211446},
          {29, 0.002166571},
          {34, 0.0001785078},
          {35, 9.556212e-05},
          {63, 3.068926e-07}},
         5.386058);
  RopeScaling yarn{RopeScalingKind::yarn, 40, 1, 4, 4096};
  expect(yarn, 1e4, 64,
         {{10, 0.05623413},
          {11, 0.03900693},
          {22, 0.0001778279},
          {23, 3.333803e-05},
          {31, 3.333804e-06}},
         3.948936);
  RopeScaling gpt_oss{RopeScalingKind::yarn, 32, 1, 4, 4096};
  gpt_oss.whole_pairs = false;
  expect(gpt_oss, 150000, 64,
         {{8, 0.05081327}, {9, 0.0317057}, {16, 0.0004564839}, {18, 3.830881e-05}},
         3.180438);
}

TEST(RopeScaling, AttentionFactorsAreThoseOfTheClasses) {
  const auto factor = [](const std::string& scaling) {
    return parse(llama(R"("rope_scaling":{"rope_type":"yarn",)" + scaling + "}"))
        .model.rope_scaling.attention_factor;
  };
  EXPECT_DOUBLE_EQ(factor(R"("factor":32)"), 1.3465735902799727);
  EXPECT_DOUBLE_EQ(factor(R"("factor":4)"), 1.138629436111989);
  EXPECT_DOUBLE_EQ(factor(R"("factor":40,"mscale":1.0,"mscale_all_dim":1.0)"), 1);
  EXPECT_DOUBLE_EQ(factor(R"("factor":4,"attention_factor":1.5)"), 1.5);
}

}  // namespace
}  // namespace trireme::convert
