// Errors of what a source needs besides its files name the key of the deck and its place.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/text_source.hpp"
#include "io/token_formats.hpp"
#include "io/token_writer.hpp"
#include "support/byte_tokenizer.hpp"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

class SourceNames : public testing::Test {
 protected:
  SourceNames()
      : folder_(fs::temp_directory_path() / format("source_names_{}", ::getpid())) {
    fs::create_directories(folder_);
    put("tokenizer.json", byte_tokenizer());
    put("tokenizer_config.json", R"({"eos_token": "<e>"})");
    config_.kind = io::SourceKind::chat;
    config_.paths = {
        put("a.jsonl", R"({"messages": [{"role": "user", "content": "q"}]})")};
    config_.sequence = 4;
    config_.vocabulary = 258;
    config_.tokenizer = folder_.string();
    config_.named_by = "a.toml:1:2: data.paths";
    config_.names = {"a.toml:3:4: data.tokenizer", "a.toml:5:6: data.chat_template",
                     "a.toml:7:8: data.packing", "a.toml:9:1: data.fim_rate"};
  }
  ~SourceNames() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text << '\n';
    return (folder_ / name).string();
  }

  void expect_error(const std::string& begin, const std::string& part) const {
    try {
      data::open_source(config_);
      ADD_FAILURE() << "was opened";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(begin)) << text;
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }

  fs::path folder_;
  io::SourceConfig config_;
};

TEST_F(SourceNames, TheTemplate) {
  config_.chat_template = "/nonexistent.jinja";
  expect_error("a.toml:5:6: data.chat_template: /nonexistent.jinja: ", "No such file");
  config_.chat_template = put("bad.jinja", "{% for %}");
  expect_error("a.toml:5:6: data.chat_template: ", "bad.jinja:1");
  config_.chat_template.clear();
  config_.paths = {"/nonexistent.jsonl"};
  put("chat_template.jinja", "{{ messages }}");
  expect_error("a.toml:1:2: data.paths: ", "/nonexistent.jsonl");
}

TEST_F(SourceNames, TheTokenizer) {
  config_.tokenizer = "/nonexistent";
  expect_error("a.toml:3:4: data.tokenizer: /nonexistent: ",
               "write where a tokenizer.json");
  config_.tokenizer = folder_.string();
  config_.vocabulary = 257;
  expect_error("a.toml:3:4: data.tokenizer: ", "set it to 258 or more");
  config_.vocabulary = 258;
  put("tokenizer_config.json", "{}");
  expect_error("a.toml:3:4: data.tokenizer: ",
               "does not say which token ends a document");
}

// Token files that do not say how documents end are cut by the tokenizer's end token.
TEST_F(SourceNames, TheTokenizersEndToken) {
  config_.kind = io::SourceKind::llmc;
  config_.paths = {(folder_ / "a.bin").string()};
  config_.packing = io::Packing::concatenate;
  std::vector<std::uint16_t> ids{1, 2, 256, 3, 4, 256, 5, 6, 256};
  const auto writer = io::make_token_writer(io::TokenFormat::llmc, config_.paths.front(),
                                            {"", 258, 256}, std::ssize(ids));
  writer->add(TensorView(ids.data(), DType::u16, {std::ssize(ids)}));
  writer->close({0, 3, 6, 9});
  EXPECT_EQ(data::open_source(config_)->end_token(), 256);
  config_.packing = io::Packing::best_fit;
  EXPECT_EQ(data::open_source(config_)->samples(), 3);
  config_.tokenizer.clear();
  expect_error("a.toml:1:2: data.paths: ", "set data.end_token");
}

}  // namespace
}  // namespace trireme::test
