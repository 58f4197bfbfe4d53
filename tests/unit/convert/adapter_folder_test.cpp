// AdapterFolder: the embedding of a model whose head is tied to it, in PEFT's files.
// SPDX-License-Identifier: Apache-2.0
#include "convert/adapter_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/memory.hpp"
#include "unit/convert/config_texts.hpp"

namespace trireme::convert {
namespace {

class TiedAdapter : public testing::Test {
 protected:
  TiedAdapter() {
    std::string name = testing::TempDir() + "adapter-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TiedAdapter() override { std::filesystem::remove_all(path_); }

  // Writes tables that are full of a number each, by their modules.
  void write(bool ties, const std::vector<std::pair<std::string, float>>& tables) const {
    std::ofstream(path_ + "/adapter_config.json")
        << R"({"peft_type":"LORA","ensure_weight_tying":)" << (ties ? "true" : "false")
        << "}";
    std::vector<io::SafetensorsTensor> tensors;
    for (const auto& [module, number] : tables)
      tensors.push_back({"base_model.model." + module + ".weight",
                         &io::safetensors_type(DType::f32),
                         {67, 24},
                         0,
                         0});
    const io::SafetensorsPlan plan(tensors);
    io::SafetensorsWriter writer(Directory(path_), adapter_weights_name, plan);
    for (const auto& tensor : plan.tensors())
      for (const auto& [module, number] : tables) {
        if (tensor.name != "base_model.model." + module + ".weight") continue;
        std::vector<float> numbers(67 * 24, number);
        writer.write(TensorView(numbers.data(), DType::f32, {67, 24}));
      }
    writer.close();
  }
  // What is wrong with the folder; "" if nothing is.
  std::string why(bool tied = true) const {
    const auto model =
        parse(llama(format(R"("tie_word_embeddings":{})", tied ? "true" : "false")))
            .model;
    try {
      const AdapterFolder folder(path_, model);
      EXPECT_TRUE(folder.has("model.embed_tokens.weight"));
      EXPECT_EQ(folder.has("lm_head.weight"), !tied);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << error.what();
      return error.what();
    }
  }
  void expect_refused(const std::string& words) const {
    const std::string message = why();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }

  std::string path_;
};

constexpr auto table = "model.embed_tokens", head = "lm_head";

TEST_F(TiedAdapter, HeadIsTheTableOnceMore) {
  for (const bool ties : {true, false}) {
    write(ties, {{table, 2.0F}, {head, 2.0F}});
    EXPECT_EQ(why(), "");
    write(ties, {{table, 2.0F}, {head, 3.0F}});
    EXPECT_EQ(why(false), "");
    expect_refused("this model ties the two");
    write(ties, {{head, 2.0F}});
    expect_refused("'base_model.model.lm_head.weight' replaces the head of a model");
  }
}

TEST_F(TiedAdapter, ATableAloneSaysWhatTheHeadIs) {
  write(true, {{table, 2.0F}});
  EXPECT_EQ(why(), "");
  write(false, {{table, 2.0F}});
  expect_refused(R"(write "ensure_weight_tying": true in adapter_config.json)");
}

}  // namespace
}  // namespace trireme::convert
