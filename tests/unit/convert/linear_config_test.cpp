// config.json of models with linear attention: of text alone, and beside vision.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "config/start_model.hpp"
#include "convert/folder_config.hpp"
#include "model/stage.hpp"

namespace trireme::convert {
namespace {

FolderConfig parse(const std::string& text) { return parse_folder_config(text, "c"); }

std::string qwen(const std::string& more = "", const std::string& type = "qwen3_5_text") {
  return R"({"model_type":")" + type +
         R"(","hidden_size":24,"num_hidden_layers":8,"num_attention_heads":4,)"
         R"("num_key_value_heads":2,"head_dim":16,"intermediate_size":40,)"
         R"("vocab_size":67,)"
         R"("linear_num_key_heads":2,"linear_num_value_heads":6,"rope_parameters":)"
         R"({"rope_theta":1e7,"partial_rotary_factor":0.25,"mrope_section":[1,1,0],)"
         R"("mrope_interleaved":true})" +
         more + "}";
}

TEST(LinearConfig, IsRead) {
  const model::ModelConfig m = parse(qwen()).model;
  EXPECT_EQ(m.row().name, "qwen3_5");
  EXPECT_EQ(m.attention.linear.key_heads, 2);
  EXPECT_EQ(m.attention.linear.value_heads, 6);
  EXPECT_EQ(m.attention.linear.key_width, 128) << "the class's default";
  EXPECT_EQ(m.rope_width, 4);
  EXPECT_EQ(m.rope_theta, 1e7);
  EXPECT_TRUE(m.layer_types.empty()) << "all but every fourth";
  EXPECT_TRUE(parse(qwen(R"(,"full_attention_interval":4)")).model.layer_types.empty());
  const auto second = parse(qwen(R"(,"full_attention_interval":2)")).model;
  for (std::int64_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(m.is_linear(layer), layer % 4 != 3) << layer;
    EXPECT_EQ(second.is_linear(layer), layer % 2 == 0) << layer;
  }
}

TEST(LinearConfig, ComesBack) {
  for (const std::string more : {"", R"(,"full_attention_interval":3)"}) {
    const auto before = parse(qwen(more)).model;
    const std::string text = folder_config_text(before, DType::f32, "");
    EXPECT_EQ(config::model_lines(parse(text).model), config::model_lines(before))
        << text;
  }
}

// Of a model with vision the text is taken, and written as a class of its own.
TEST(LinearConfig, IsTheTextOfAModelWithVision) {
  const std::string text =
      R"({"model_type":"qwen3_5","architectures":["Qwen3_5ForConditionalGeneration"],)"
      R"("tie_word_embeddings":true,"vision_config":{"depth":3},"text_config":)" +
      qwen(R"(,"of_nobody":1)") + "}";
  const FolderConfig config = parse(text);
  EXPECT_TRUE(config.model.tie_embeddings);
  EXPECT_EQ(config.model.layers, 8);
  const std::string out = folder_config_text(config.model, DType::f32, text);
  EXPECT_NE(out.find("\"Qwen3_5ForCausalLM\""), std::string::npos) << out;
  EXPECT_NE(out.find("of_nobody"), std::string::npos) << out;
  EXPECT_EQ(out.find("vision"), std::string::npos) << out;
  EXPECT_EQ(config::model_lines(parse(out).model), config::model_lines(config.model));
}

TEST(LinearConfig, WhatIsNotComputedIsRefusedByName) {
  struct Case {
    std::string text, words;
  };
  const std::array cases = {
      Case{qwen(R"(,"linear_num_value_heads":5)"), "comes twice"},
      Case{qwen(R"(,"attention_bias":true)"), "'attention_bias' = true"},
      Case{qwen(R"(,"attn_output_gate":false)"), "'attn_output_gate' = false"},
      Case{qwen(R"(,"linear_conv_kernel_dim":9)"), "'linear_conv_kernel_dim'"},
      Case{qwen(R"(,"layer_types":["linear_attention"])"), "is no list of 8 layers"},
      Case{qwen(R"(,"layer_types":["mamba",2,3,4,5,6,7,8])"), "'layer_types'"},
      Case{qwen("", "qwen3_next"), "'model_type' = \"qwen3_next\""},
      Case{R"({"model_type":"qwen3_5"})", "'model_type' = \"qwen3_5\""},
      Case{R"({"model_type":"qwen3_5","text_config":7})", "'text_config'"}};
  for (const Case& each : cases) {
    try {
      parse(each.text);
      ADD_FAILURE() << each.words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << error.what();
      EXPECT_NE(std::string(error.what()).find(each.words), std::string::npos)
          << error.what();
    }
  }
}

// Parameters of a layer of each kind, by their tensors; what a state costs.
TEST(LinearConfig, ParametersAndFlopsAreCounted) {
  const model::ModelConfig m = parse(qwen()).model;
  const std::int64_t D = 24, F = 40, K = 128, keys = 2 * K, values = 6 * K;
  const std::int64_t channels = 2 * keys + values;
  const std::int64_t linear =
      channels * D + values * D + 2 * 6 * D + channels * 4 + 2 * 6 + K + values * D;
  const std::int64_t full = (2 * 4 + 2 * 2) * 16 * D + 2 * 16 + 4 * 16 * D;
  const std::int64_t rest = 3 * D * F + 2 * D;
  EXPECT_EQ(model::parameter_count(m), 6 * linear + 2 * full + 8 * rest + 2 * 67 * D + D);
  const double flops = model::flops_per_token(m).full;
  const auto N = static_cast<double>(6 * linear + 2 * full + 8 * rest + 67 * D + D);
  EXPECT_DOUBLE_EQ(flops, 6 * N + 18.0 * 6 * 6 * K * K +
                              12.0 * 2 * 4 * 16 * static_cast<double>(m.sequence));
}

}  // namespace
}  // namespace trireme::convert
