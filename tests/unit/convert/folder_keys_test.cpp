// Keys of config.json by which models of one class differ.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>

#include "convert/folder_place.hpp"
#include "unit/convert/config_texts.hpp"

namespace trireme::convert {
namespace {

constexpr auto folders_of_tests = "tests/reference/folders";

TEST(FolderConfig, ActivationsHaveTheirNames) {
  using nn::Activation;
  struct Case {
    std::string text;
    Activation expected;
  };
  const auto gpt2 = [](const std::string& name) {
    return R"({"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":3,)"
           R"("activation_function":")" +
           name + R"("})";
  };
  const Case cases[] = {
      {llama(R"("hidden_act":"swish")"), Activation::swiglu},
      {llama(R"("hidden_act":"gelu")"), Activation::geglu_erf},
      {llama(R"("hidden_act":"gelu_new")"), Activation::geglu},
      {llama(R"("hidden_act":"relu")", "mixtral"), Activation::reglu},
      {llama(R"("hidden_act":"relu2")"), Activation::reglu2},
      {llama(R"("hidden_act":"gelu")", "gemma"), Activation::geglu},  // its class says so
      {llama(R"("hidden_activation":"gelu")", "gemma2"), Activation::geglu_erf},
      {gpt2("gelu"), Activation::gelu_erf},
      {gpt2("gelu_pytorch_tanh"), Activation::gelu},
      {gpt2("silu"), Activation::silu},
      {gpt2("relu"), Activation::relu},
      {gpt2("relu2"), Activation::relu2}};
  for (const auto& [text, expected] : cases) {
    const model::ModelConfig m = parse(text).model;
    EXPECT_EQ(m.activation(), expected) << text;
    expect_both_ways(m);
  }
}

// What a class has one way to do, whatever its configuration says.
TEST(FolderConfig, RoutersAreThoseOfTheClass) {
  std::string text = llama("", "deepseek_v3");
  text.replace(text.find(R"("num_key_value_heads":2)"), 23, R"("num_experts_per_tok":3)");
  const auto before = parse(text).model;
  expect_both_ways(before);
  const auto refuses = [](const model::ModelConfig& m, const std::string& words) {
    try {
      folder_config_text(m, DType::f32, "");
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  auto m = before;
  m.moe.choice_bias = false;
  refuses(m, "model.moe.choice_bias = false is unknown to DeepseekV3ForCausalLM");
  m.moe.bias_update_rate = 1e-3;  // then there is one
  expect_both_ways(parse(folder_config_text(m, DType::f32, "")).model);
  m = before;
  m.moe.router = kernels::RouterScore::softmax;
  refuses(m, "model.moe.router = softmax is unknown to DeepseekV3ForCausalLM");
  m = before;
  m.moe.groups.counted = 1;
  refuses(m, "model.moe.group_counts = 1 is unknown to DeepseekV3ForCausalLM");
  m = parse(llama("", "mixtral")).model;
  m.moe.normalise = false;
  refuses(m, "model.moe.normalise = false is unknown to MixtralForCausalLM");
}

// Biases that a class leaves out or adds, and what divides scores.
TEST(FolderConfig, AttentionIsThatOfTheClass) {
  const std::string off = R"("attention_bias":false)", on = R"("attention_bias":true)";
  for (const char* type : {"gpt_neox", "gpt_oss"}) {
    std::string text = llama(off, type);
    if (type == std::string("gpt_neox"))
      text.replace(text.find("rope_theta"), 10, "rotary_emb_base")
          .insert(1, R"("rotary_pct":1.0,)");
    const auto m = parse(text).model;
    EXPECT_FALSE(m.attention.own_bias) << type;
    expect_both_ways(m);
  }
  const auto moe = parse(llama(R"("qkv_bias":false)", "qwen2_moe")).model;
  EXPECT_FALSE(moe.attention.own_bias);
  expect_both_ways(moe);
  std::string text = llama(on + R"(,"rope_interleave":false)", "deepseek_v3");
  text.replace(text.find(R"("num_key_value_heads":2)"), 23, R"("num_experts_per_tok":3)");
  const auto latent = parse(text).model;
  EXPECT_TRUE(latent.attention.bias);
  EXPECT_FALSE(latent.attention.latent.neighbours);
  expect_both_ways(latent);
  const auto gpt2 = parse(R"({"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":3,)"
                          R"("scale_attn_weights":false,)"
                          R"("scale_attn_by_inverse_layer_idx":true})")
                        .model;
  EXPECT_EQ(gpt2.attention.query_scalar, 1);
  EXPECT_TRUE(gpt2.attention.scale_by_layer);
  expect_both_ways(gpt2);
  const auto oss = parse(llama("", "gpt_oss")).model;
  EXPECT_EQ(oss.rope_scaling.factor, 32) << "without rope_scaling its class has yarn";
  EXPECT_FALSE(oss.rope_scaling.whole_pairs);
  const auto plain =
      parse(llama(R"("rope_parameters":{"rope_type":"default"})", "gpt_oss")).model;
  EXPECT_EQ(plain.rope_scaling, kernels::RopeScaling{});
  expect_both_ways(plain);
}

// Whose widths do not follow from that of the model.
TEST(FolderKeys, HeadsOfLatentAttentionNeedNotDivideTheWidth) {
  const std::string text =
      R"({"model_type":"deepseek_v3","hidden_size":32,"num_attention_heads":6,)"
      R"("num_key_value_heads":6,"num_hidden_layers":2,"q_lora_rank":16,)"
      R"("kv_lora_rank":12,"qk_nope_head_dim":8,"qk_rope_head_dim":4,"v_head_dim":8,)"
      R"("rope_theta":1e4})";
  const auto m = parse(text).model;
  EXPECT_EQ(m.head_width(), 12);
  expect_both_ways(m);
}

// transformers takes an integer alone.
TEST(FolderKeys, WhatDividesQueriesIsWrittenWhole) {
  for (const char* type : {"gemma2", "gemma3_text"}) {
    for (const char* given : {"8", "8.0"}) {
      const auto m =
          parse(llama(format(R"("query_pre_attn_scalar":{})", given), type)).model;
      const std::string text = folder_config_text(m, DType::f32, "");
      EXPECT_NE(text.find(R"("query_pre_attn_scalar": 8,)"), std::string::npos) << text;
    }
    auto m = parse(llama("", type)).model;
    m.attention.query_scalar = 0;
    const std::string text = folder_config_text(m, DType::f32, "");
    EXPECT_NE(text.find(R"("query_pre_attn_scalar": 256,)"), std::string::npos) << text;
  }
}

// A model that a class of transformers would compute otherwise, or could not read, is
// refused by the key that says so.
TEST(FolderKeys, WhatAClassComputesOtherwiseIsNotWritten) {
  using kernels::RopeScaling, kernels::RopeScalingKind;
  const auto refuses = [](const model::ModelConfig& m, const std::string& key) {
    EXPECT_NE(why_not_expressible(m).find(key), std::string::npos)
        << key << ": " << why_not_expressible(m);
  };
  const auto model_of = [](const char* type, const std::string& more = "") {
    model::ModelConfig m = parse(llama(more, type)).model;
    EXPECT_EQ(why_not_expressible(m), "") << type;
    return m;
  };
  const auto scaled = [](RopeScalingKind kind, double original) {
    return RopeScaling{.kind = kind, .factor = 2, .original = original};
  };

  auto m = model_of("llama");
  for (const auto kind : {RopeScalingKind::linear, RopeScalingKind::llama3}) {
    m.rope_scaling = scaled(kind, kind == RopeScalingKind::linear ? 0 : 32);
    EXPECT_EQ(why_not_expressible(m), "");
    m.rope_scaling.attention_factor = 1.25;
    refuses(m, "model.rope.attention_factor = 1.25");
  }
  m.rope_scaling = scaled(RopeScalingKind::llama3, 12.5);
  refuses(m, "model.rope.original = 12.5");

  m = model_of("gemma3_text", R"("sliding_window":8)");
  m.rope_scaling = scaled(RopeScalingKind::linear, 0);
  m.sliding_rope_theta = 5000;
  EXPECT_EQ(why_not_expressible(m), "") << "windows turn by a base of their own";
  m.sliding_rope_theta = 0;
  refuses(m, "model.window and model.rope.scaling");
  m = model_of("olmo3");
  m.rope_scaling = scaled(RopeScalingKind::yarn, 32);
  m.window = 0;
  EXPECT_EQ(why_not_expressible(m), "");
  m.rope_scaling.whole_pairs = false;
  refuses(m, "model.rope.whole_pairs = false");

  m = model_of("gemma2");
  m.attention.query_scalar = 7.5;
  refuses(m, "model.query_scalar = 7.5");
  m = model_of("gemma2");
  m.own_head_width = 8;
  m.hidden = 26;
  refuses(m, "a model.hidden that is no multiple of model.heads");
  m.architecture = model::Architecture::llama;
  m.logit_cap = m.attention.cap = m.attention.query_scalar = 0;
  m.window = 0;
  m.layer_types = {};
  m.mlp.activation = {};
  EXPECT_NE(folder_config_text(m, DType::f32, "").find("MistralForCausalLM"),
            std::string::npos)
      << "whose class takes any width";

  std::string latent = llama(R"("kv_lora_rank":12,"q_lora_rank":16,"qk_nope_head_dim":8,)"
                             R"("qk_rope_head_dim":4,"v_head_dim":8,"n_group":1,)"
                             R"("topk_group":1,"num_experts_per_tok":1)",
                             "deepseek_v2");
  latent.erase(latent.find(R"("num_key_value_heads":2,)"), 24);
  m = parse(latent).model;
  EXPECT_EQ(why_not_expressible(m), "");
  m.attention.latent.neighbours = false;
  refuses(m, "model.latent.neighbours = false");
  m.attention.latent.neighbours = true;
  m.attention.latent.width = 13;
  refuses(m, "model.latent.width = 13");
  m.attention.latent.width = 12;
  m.moe.shared_feed_forward = 5;
  refuses(m, "model.moe.shared_feed_forward = 5");

  m = parse(R"({"model_type":"gpt2"})").model;
  m.residual.pad_token = 3;
  refuses(m, "model.embedding.pad_token = 3");
}

// Classes that read a number of positions in any case get one, with layers that see all.
TEST(FolderKeys, NoWindowIsANumberWhereTheClassReadsOne) {
  for (const char* type : {"gemma2", "gemma3_text"}) {
    auto m = parse(llama("", type)).model;
    m.window = 0;
    m.layer_types = {};
    m.sliding_rope_theta = 0;
    const std::string text = folder_config_text(m, DType::f32, "");
    EXPECT_NE(text.find(R"("sliding_window": 64)"), std::string::npos) << text;
    expect_both_ways(m);
  }
}

// Widths of heads are known before the numbers that longrope has for each pair.
TEST(FolderKeys, LongropeOfLatentAttentionCountsItsOwnPairs) {
  std::string text = llama(
      R"("kv_lora_rank":12,"q_lora_rank":16,"qk_nope_head_dim":8,"qk_rope_head_dim":4,)"
      R"("v_head_dim":8,"rope_scaling":{"type":"longrope","factor":2.0,"short_factor":[1.0,1.5],)"
      R"("long_factor":[2.0,3.0],"original_max_position_embeddings":32,)"
      R"("mscale_all_dim":-0.75})",
      "deepseek_v3");
  text.erase(text.find(R"("num_key_value_heads":2,)"), 24);
  const auto m = parse(text).model;
  EXPECT_EQ(m.rope_scaling.long_divisors, (std::vector<double>{2, 3}));
  EXPECT_LT(m.attention.latent.score_factor, 1);
  expect_both_ways(m);
}

// As transformers writes them with save_original_format=False: a tensor of all experts,
// in which gates lie before what they weigh.
TEST(FolderKeys, ExpertsMayLieInOneTensor) {
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "run this test by ctest";
  for (const std::string name : {"mixtral", "qwen2_moe", "qwen3_moe", "qwen3_5_moe",
                                 "deepseek_v2", "deepseek_v3", "glm4_moe"}) {
    const auto config =
        read_folder_config(format("{}/{}/{}", root, folders_of_tests, name));
    const model::ModelConfig& m = config.model;
    const auto& names = m.row().names.experts;
    const std::int64_t E = m.moe.experts, F = m.expert_width(), D = m.hidden;
    const std::string at = "model.layers.1.";
    const std::string last = at + format("{}.experts.{}.", names.layer, E - 1);
    const auto place = [&](std::string_view part, const Shape& shape) {
      return stacked_place_of(*config.row, m, {last + format("{}.weight", part), shape});
    };
    for (const auto part : {names.gate, names.up}) {
      const FolderPlace found = place(part, {F, D});
      EXPECT_EQ(found.name, at + "mlp.experts.gate_up_proj") << name;
      EXPECT_EQ(found.shape, (Shape{E, 2 * F, D})) << name;
      const auto box = found.box_of({0, 0}, {F, D});
      EXPECT_EQ(box.begin, (Shape{E - 1, part == names.up ? F : 0, 0})) << name;
      EXPECT_EQ(box.extent, (Shape{1, F, D})) << name;
    }
    EXPECT_EQ(place(names.down, {D, F}).name, at + "mlp.experts.down_proj") << name;
    EXPECT_EQ(place(names.down, {D, F}).shape, (Shape{E, D, F})) << name;
    const std::string router = format("{}.gate.weight", names.layer);
    EXPECT_EQ(stacked_place_of(*config.row, m, {at + router, {E, D}}).name,
              at + "mlp.gate.weight")
        << name;
  }
}

// What `inspect` prints of each folder is a part of a deck.
TEST(FolderKeys, EveryFolderIsADeckAndComesBack) {
  namespace fs = std::filesystem;
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "run this test by ctest";
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(root) / folders_of_tests)) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().string());
    const model::ModelConfig m = read_folder_config(entry.path().string()).model;
    const std::vector<std::string> rest = {"run.steps=1", "batch.global=1",
                                           "batch.micro=1", "data.source=\"synthetic\""};
    const auto deck =
        io::Deck::parse(config::model_text(m), "deck", rest, config::deck_table());
    EXPECT_EQ(config::model_lines(config::make_run_config(deck, 1).model),
              config::model_lines(m));
    expect_both_ways(m);
    ++folders;
  }
  EXPECT_GT(folders, 20);
}

// What changes the model in transformers and not here is refused, and other names of a
// key mean the key.
TEST(FolderKeys, WhatWouldBeAnotherModel) {
  const auto refuses = [](const std::string& text, const std::string& key) {
    try {
      parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  refuses(llama(R"("is_causal":false)"), "'is_causal' = false");
  EXPECT_NO_THROW(parse(llama(R"("is_causal":true)")));
  const std::string linear = R"({"rope_type":"linear","factor":2.0})";
  const std::string plain = R"({"rope_type":"default"})";
  refuses(llama(R"("rope_scaling":)" + linear + R"(,"rope_parameters":)" + plain),
          "'rope_parameters'");
  EXPECT_EQ(
      parse(llama(R"("rope_scaling":)" + linear + R"(,"rope_parameters":)" + linear))
          .model.rope_scaling.factor,
      2);
  EXPECT_EQ(parse(llama(R"("rope_scaling":{},"rope_parameters":)" + linear))
                .model.rope_scaling.factor,
            2);

  std::string latent = llama(R"("num_experts_per_tok":3,"norm_topk_prob":null,)"
                             R"("rope_interleave":null,)"
                             R"("rope_scaling":{"rope_type":"default","factor":4.0,)"
                             R"("mscale_all_dim":1.0})",
                             "deepseek_v3");
  latent.erase(latent.find(R"("num_key_value_heads":2,)"), 24);
  const auto deepseek = parse(latent).model;
  EXPECT_EQ(deepseek.attention.latent.score_factor, 1);
  EXPECT_FALSE(deepseek.moe.normalise);
  EXPECT_FALSE(deepseek.attention.latent.neighbours);
  // Of the classes with windows in some layers Gemma 3's alone has a pattern.
  const std::string pattern = R"("sliding_window":8,"sliding_window_pattern":3)";
  EXPECT_EQ(parse(llama(pattern, "gemma2")).model.layer_types,
            parse(llama(R"("sliding_window":8)", "gemma2")).model.layer_types);
  refuses(llama(R"("sliding_window":0)", "mistral"), "'sliding_window' = 0");

  const auto gpt2 =
      parse(R"({"model_type":"gpt2","hidden_size":24,"num_hidden_layers":2,)"
            R"("num_attention_heads":3,"max_position_embeddings":64,"n_head":3})")
          .model;
  EXPECT_EQ(gpt2.hidden, 24);
  EXPECT_EQ(gpt2.layers, 2);
  EXPECT_EQ(gpt2.heads, 3);
  EXPECT_EQ(gpt2.sequence, 64);
  refuses(R"({"model_type":"gpt2","n_head":4,"num_attention_heads":3})",
          "'num_attention_heads'");
  EXPECT_EQ(parse(llama(R"("num_experts":5)", "mixtral")).model.moe.experts, 5);
}

// PyTorch's padding_idx, which counts from the end below 0; GPT-2's class has none.
TEST(FolderKeys, TheTokenWhoseEmbeddingIsNotTrained) {
  const auto pad = [](const std::string& text) {
    const model::ModelConfig m = parse(text).model;
    expect_both_ways(m);
    return m.residual.pad_token;
  };
  EXPECT_EQ(pad(llama()), -1);
  EXPECT_EQ(pad(llama(R"("pad_token_id":5)")), 5);
  EXPECT_EQ(pad(llama(R"("pad_token_id":null)", "gemma")), -1);
  EXPECT_EQ(pad(llama("", "gemma")), 0);
  EXPECT_EQ(pad(llama("", "olmo2")), 1);
  EXPECT_EQ(pad(llama(R"("pad_token_id":-1)")), 66);
  EXPECT_EQ(pad(llama(R"("pad_token_id":67)")), -1) << "is no token";
  EXPECT_EQ(pad(llama("", "phi3")), -1) << "32000 is none either";
  EXPECT_EQ(parse(R"({"model_type":"gpt2","pad_token_id":5})").model.residual.pad_token,
            -1);
  EXPECT_THROW(parse(llama(R"("pad_token_id":"5")")), Error);
}

}  // namespace
}  // namespace trireme::convert
