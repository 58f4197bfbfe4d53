// Ids and texts of small tokenizers are those of the libraries that their files are of.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "io/json.hpp"
#include "text/json_lines.hpp"
#include "text/tokenizer.hpp"
#include "text/workspace.hpp"

namespace trireme::text {
namespace {

std::string folder() {
  const char* source = std::getenv("TRIREME_SOURCE");
  return std::string(source != nullptr ? source : ".") + "/tests/reference/tokenizers/";
}

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream in(folder() + name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The file of a tokenizer: a tokenizer.json unless the name says another kind.
std::string file_of(const std::string& name) {
  return folder() + name +
         (name == "small"           ? ".tiktoken"
          : name.starts_with("sp_") ? ".model"
                                    : ".json");
}
// Those files add no special tokens by themselves.
bool adds_special(const std::string& name) { return file_of(name).ends_with(".json"); }

class SmallTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(SmallTokenizer, GivesTheIdsAndTextsOfTheReference) {
  const std::string name = GetParam();
  const Tokenizer tokenizer(file_of(name));
  const auto texts = lines_of("texts.txt"), wanted = lines_of(name + ".txt");
  ASSERT_GT(texts.size(), 200u);
  ASSERT_EQ(wanted.size(), 2 * texts.size());
  Workspace workspace;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i]);
    const std::string text = text_of_json(texts[i], "texts.txt");
    const auto ids = ids_of_json(wanted[2 * i], name);
    std::vector<std::int32_t> found;
    tokenizer.encode(text, SpecialTokens::add, found, workspace);
    EXPECT_EQ(found, ids);
    const std::string decoded = text_of_json(wanted[2 * i + 1], name);
    EXPECT_EQ(tokenizer.decode(ids, adds_special(name)), decoded);
  }
}

// Offsets say which bytes a token stands for: in order, whole characters, none left out
// where nothing is dropped. The ids are those of encode().
TEST_P(SmallTokenizer, PlacesItsTokensInTheText) {
  const std::string name = GetParam();
  const Tokenizer tokenizer(file_of(name));
  for (const std::string& line : lines_of("texts.txt")) {
    SCOPED_TRACE(line);
    const std::string text = text_of_json(line, "texts.txt");
    const Encoding encoding =
        tokenizer.encode_with_offsets(text, SpecialTokens::leave_out);
    EXPECT_EQ(encoding.ids, tokenizer.encode(text, SpecialTokens::leave_out));
    ASSERT_EQ(encoding.offsets.size(), encoding.ids.size());
    std::uint32_t end = 0;
    for (const Range& range : encoding.offsets) {
      ASSERT_LE(range.begin, range.end);
      ASSERT_LE(range.end, text.size());
      if (name == "llama3") {
        EXPECT_LE(range.begin, end);  // no byte is left out
      }
      end = std::max(end, range.end);
      for (const std::uint32_t at : {range.begin, range.end})
        if (at < text.size()) {
          EXPECT_NE(static_cast<unsigned char>(text[at]) & 0xC0, 0x80) << at;
        }
    }
    if (name == "llama3") {
      EXPECT_EQ(end, text.size());
    }
  }
}

// What a stream decoder gives piece by piece is the whole text.
TEST_P(SmallTokenizer, StreamsTheSameText) {
  const Tokenizer tokenizer(file_of(GetParam()));
  for (const std::string& line : lines_of("texts.txt")) {
    SCOPED_TRACE(line);
    const auto ids =
        tokenizer.encode(text_of_json(line, "texts.txt"), SpecialTokens::leave_out);
    StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.put(id);
    streamed += stream.finish();
    EXPECT_EQ(streamed, tokenizer.decode(ids, false));
  }
}

// ... of any ids as well.
TEST_P(SmallTokenizer, StreamsTheSameTextOfAnyIds) {
  const Tokenizer tokenizer(file_of(GetParam()));
  std::mt19937 random(19);
  const auto vocabulary = static_cast<std::uint32_t>(tokenizer.vocabulary());
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int32_t> ids;
    while (ids.size() < 12) {
      const auto below = random() % 3 == 0 ? std::min(vocabulary, 262u) : vocabulary;
      const auto id = static_cast<std::int32_t>(random() % below);
      if (tokenizer.token_of(id) != nullptr) ids.push_back(id);
    }
    const bool skip = round % 2 == 0;
    StreamDecoder stream(tokenizer, skip);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.put(id);
    streamed += stream.finish();
    ASSERT_EQ(streamed, tokenizer.decode(ids, skip)) << testing::PrintToString(ids);
  }
}

TEST(SentencePiece, DecidesBetweenTiesAsTheLibrary) {
  std::map<std::string, Tokenizer> tokenizers;
  const auto lines = lines_of("sp_ties.txt");
  ASSERT_EQ(lines.size(), 180u);
  for (const std::string& line : lines) {
    SCOPED_TRACE(line);
    const Json one = Json::parse(line);
    const auto name = one[0].get<std::string>();
    if (!tokenizers.contains(name)) tokenizers.emplace(name, Tokenizer(file_of(name)));
    const std::string before(one[1].get<std::size_t>(), '~');
    EXPECT_EQ(tokenizers.at(name).encode(before + one[2].get<std::string>(),
                                         SpecialTokens::leave_out),
              one[3].get<std::vector<std::int32_t>>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallTokenizer,
                         testing::Values("gpt2", "llama3", "qwen", "o200k", "tekken",
                                         "deepseek", "other", "classes", "scripts",
                                         "marks", "ctc", "llama2", "metaspace",
                                         "precompiled", "bert", "words", "old", "folded",
                                         "small", "sp_bpe", "sp_bpe_plain", "sp_unigram",
                                         "sp_unigram_bytes"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace trireme::text
