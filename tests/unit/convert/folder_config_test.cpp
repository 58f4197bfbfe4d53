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
#include "unit/convert/config_texts.hpp"

namespace trireme::convert {
namespace {

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
}

// The base grows beyond max_position_embeddings, whatever length the texts have.
TEST(FolderConfig, DynamicPositionsHaveNoEnd) {
  const std::string text = llama(R"("rope_scaling":{"type":"dynamic","factor":2,)"
                                 R"("original_max_position_embeddings":7})");
  model::ModelConfig m = parse(text).model;
  EXPECT_EQ(m.rope_scaling.kind, kernels::RopeScalingKind::dynamic);
  EXPECT_EQ(m.rope_scaling.original, static_cast<double>(m.sequence));
  EXPECT_EQ(m.positions_for(1000), 1000);
  EXPECT_EQ(m.usual_positions(), 2 * m.sequence);
  EXPECT_EQ(parse(llama()).model.positions_for(1000), m.sequence);
  m.sequence *= 8;  // as a deck may have it
  EXPECT_EQ(folder_config_text(m, DType::f32, text), text);
  const auto again = parse(folder_config_text(m, DType::f32, "")).model;
  EXPECT_EQ(again.rope_scaling, m.rope_scaling);
  EXPECT_EQ(again.sequence * 8, m.sequence);
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
      Case{llama("", "llama", R"("rope_theta":NaN,)"), "is no JSON: parse error at"},
      Case{llama("", "llama", R"("rope_theta":1e999,)"), "is no JSON"},
      Case{llama("", "llama", R"("rope_theta":-1,)"), "'rope_theta'"},
      Case{llama(R"("rope_scaling":{"type":"longrope","factor":2})"),
           "'rope_scaling.short_factor' is missing"},
      Case{llama(R"("rope_scaling":{"type":"longrope","short_factor":[1,1,0],)"
                 R"("long_factor":[1,1,1]})"),
           "'rope_scaling.short_factor' = [1,1,0] is no list of 3 numbers"},
      Case{llama(R"("rope_scaling":{"type":"longrope","short_factor":[1,1,1],)"
                 R"("long_factor":[1,1]})"),
           "'rope_scaling.long_factor' = [1,1] is no list of 3 numbers"},
      Case{llama(R"("rope_scaling":{"type":"wide","factor":2})"), "\"wide\""},
      Case{llama(R"("rope_scaling":{"type":"linear","factor":2})", "phi3"),
           "has longrope only"},
      Case{llama(R"("partial_rotary_factor":0.5)", "phi3"),
           "turns 3 numbers of each head of 6"},
      Case{llama(R"("no_rope_layers":[1])", "smollm3"), "'no_rope_layers' = [1]"},
      Case{llama(R"("no_rope_layers":[1,2])", "smollm3"), "'no_rope_layers' = [1,2]"},
      Case{llama(R"("rope_scaling":{"type":"linear"})"), "'rope_scaling.factor'"},
      Case{llama(R"("rope_scaling":{"type":"dynamic"})"), "'rope_scaling.factor'"},
      Case{llama(R"("rope_scaling":{"type":"dynamic","factor":2},"head_dim":2)"),
           "two pairs of each head at least"},
      Case{llama(R"("rope_scaling":{"type":"linear","factor":2,"wavy":1})"), "wavy"},
      Case{llama(R"("rope_parameters":{"rope_theta":5.0})"), "differs from"},
      Case{llama(R"("partial_rotary_factor":0.5)"), "'partial_rotary_factor' = 0.5"},
      Case{llama(R"("attention_bias":true)", "mistral"), "'attention_bias' = true"},
      Case{llama(R"("attention_bias":1)"), "'attention_bias'"},
      Case{llama(R"("mlp_bias":true)", "mistral"), "'mlp_bias' = true"},
      Case{llama(R"("hidden_act":"mish")"), "'hidden_act' = \"mish\""},
      Case{llama(R"("hidden_act":"gelu")", "gpt_oss"), "a function of its own"},
      Case{llama(R"("rope_scaling":{"type":"linear","factor":2})", "gemma3_text"),
           "'rope_scaling.type' = \"linear\" means no scaling to transformers 5"},
      Case{llama(R"("rope_parameters":{"rope_type":"default","rope_theta":5e5})",
                 "gemma3_text", ""),
           "'rope_parameters.rope_theta' = 500000.0 is not read by Gemma3ForCausalLM, "
           "which has an object for each kind of layers: write it into 'full_attention' "
           "and 'sliding_attention' there"},
      Case{llama(R"("rope_parameters":{"rope_theta":5e5})", "olmo3", ""),
           "is not read by Olmo3ForCausalLM"},
      Case{llama(R"("use_bidirectional_attention":true)", "gemma"),
           "'use_bidirectional_attention'"},
      Case{llama(R"("quantization_config":{"quant_method":"hqq"})"), "quantized"},
      Case{llama(R"("quantization_config":7)"), "'quantization_config' must be"},
      Case{llama(R"("quantization_config":{"quant_method":"fp8","fmt":"e5m2"})"), "e5m2"},
      Case{llama(R"("quantization_config":{"quant_method":"fp8",)"
                 R"("weight_block_size":[128]})"),
           "'quantization_config.weight_block_size' = [128] is no pair"},
      Case{llama(R"("quantization_config":{"quant_method":"fp8",)"
                 R"("weight_block_size":[128,0]})"),
           "is no pair of extents of a block"},
      Case{llama(R"("swiglu_limit":8.0)", "gpt_oss"), "'swiglu_limit' = 8.0"},
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
      Case{R"({"model_type":"gpt2","add_cross_attention":true})", "add_cross_attention"},
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

// What is written has no quantized weights, and keeps all else.
TEST(FolderConfig, QuantizedWeightsAreReadOnly) {
  const std::string text =
      llama(R"("of_nobody":1,"quantization_config":{"quant_method":"fp8",)"
            R"("activation_scheme":"dynamic","weight_block_size":[128,64]})");
  const FolderConfig config = parse(text);
  EXPECT_EQ(config.quantization.kind, Quantization::Kind::fp8);
  EXPECT_EQ(config.quantization.rows, 128);
  EXPECT_EQ(config.quantization.columns, 64);
  const std::string written = folder_config_text(config.model, DType::bf16, text);
  EXPECT_EQ(parse(written).quantization.kind, Quantization::Kind::none);
  EXPECT_NE(written.find("of_nobody"), std::string::npos);
  const auto mxfp4 =
      parse(llama(R"("quantization_config":{"quant_method":"mxfp4"})", "gpt_oss"));
  EXPECT_EQ(mxfp4.quantization.kind, Quantization::Kind::mxfp4);
  EXPECT_EQ(mxfp4.model.moe.experts, 128);
  EXPECT_EQ(mxfp4.model.head_width(), 64);
  EXPECT_EQ(mxfp4.model.window_of(0), 128);
  EXPECT_EQ(mxfp4.model.window_of(1), 0);
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

// A model of each way to turn heads: as text, again from what is written, and as a deck.
TEST(FolderConfig, RotaryPositionsAreThoseOfTheClass) {
  const auto again = [](const model::ModelConfig& m) {
    return parse(folder_config_text(m, DType::f32, "")).model;
  };
  const std::string longrope =
      R"("rope_scaling":{"type":"su","short_factor":[1,1.5],"long_factor":[2,3]},)";
  const auto phi3 = parse(llama(longrope + R"("partial_rotary_factor":0.7)", "phi3"));
  EXPECT_EQ(phi3.model.rope_width, 4) << "int(6 * 0.7)";
  EXPECT_EQ(phi3.model.rope_scaling.kind, kernels::RopeScalingKind::longrope);
  EXPECT_EQ(phi3.model.rope_scaling.original, 4096) << "the class's default";
  EXPECT_EQ(phi3.model.rope_scaling.attention_factor, 1) << "64 positions are fewer";
  const auto beyond = parse(llama(
      longrope + R"("partial_rotary_factor":0.7,"original_max_position_embeddings":16)",
      "phi3"));
  EXPECT_DOUBLE_EQ(beyond.model.rope_scaling.attention_factor,
                   std::sqrt(1 + std::log(4.0) / std::log(16.0)));
  const auto smollm3 =
      parse(llama(R"("no_rope_layers":[0,1,1],"attention_bias":true)", "smollm3"));
  EXPECT_EQ(smollm3.model.rope_layers, (std::vector<std::int64_t>{0, 1}));
  EXPECT_FALSE(smollm3.model.turns(0));
  EXPECT_TRUE(smollm3.model.attention.bias);
  const auto hybrid = parse(
      llama(R"("no_rope_layer_interval":2,"use_sliding_window":true,"sliding_window":5)",
            "smollm3"));
  EXPECT_TRUE(hybrid.model.turns(0));
  EXPECT_FALSE(hybrid.model.turns(1));
  EXPECT_EQ(hybrid.model.window_of(0), 0);
  EXPECT_EQ(hybrid.model.window_of(1), 5);
  EXPECT_TRUE(parse(llama("", "smollm3")).model.rope_layers.empty()) << "the fourth";
  const auto dynamic = parse(llama(R"("rope_scaling":{"type":"dynamic","factor":2.5})"));
  for (const auto* each : {&phi3, &beyond, &smollm3, &hybrid, &dynamic}) {
    const auto& m = each->model;
    EXPECT_EQ(config::model_lines(again(m)), config::model_lines(m));
    const auto deck = io::Deck::parse("", "deck", deck_lines(m), config::deck_table());
    EXPECT_EQ(config::model_lines(config::make_run_config(deck, 1).model),
              config::model_lines(m));
  }
  // A class that has no such key.
  model::ModelConfig wide = phi3.model;
  wide.architecture = model::Architecture::llama;
  EXPECT_THROW(folder_config_text(wide, DType::f32, ""), Error);
  model::ModelConfig biased = parse(llama("", "mistral")).model;
  EXPECT_GT(biased.window, 0);
  biased.attention.bias = true;
  EXPECT_THROW(folder_config_text(biased, DType::f32, ""), Error);
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
    const std::string scaling =
        row.rope.longrope_only ? ""
                               : R"("rope_scaling":{"rope_type":"yarn","factor":2.5},)";
    std::string of_llama = llama(scaling + R"("head_dim":10,"sliding_window":null)",
                                 std::string(row.model_type));
    of_llama.replace(of_llama.find("rope_theta"), 10, row.rope.theta);
    if (row.rope.by_kind) of_llama.replace(of_llama.find("null"), 4, "5");
    if (!row.rope.part.empty())  // by default an odd number of these heads' numbers
      of_llama.insert(1, format("\"{}\":0.4,", row.rope.part));
    if (!row.keys.latent.empty())  // has as many keys as queries, and no default of top_k
      of_llama.replace(of_llama.find(R"("num_key_value_heads":2)"), 23,
                       R"("num_experts_per_tok":3)");
    SCOPED_TRACE(row.model_type);
    expect_both_ways(
        parse(gpt2 ? R"({"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":3})"
                   : of_llama)
            .model);
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
  EXPECT_DOUBLE_EQ(factor(R"("factor":4,"mscale":1.0,"mscale_all_dim":0)"),
                   factor(R"("factor":4)"));
  EXPECT_DOUBLE_EQ(factor(R"("factor":4,"attention_factor":1.5)"), 1.5);
}

}  // namespace
}  // namespace trireme::convert
