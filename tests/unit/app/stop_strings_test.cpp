// Stop strings, also where their last character is several tokens.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "app/prompt_file.hpp"

namespace trireme::app {
namespace {

// Tokens: a, b, and the two bytes of an omega, each a character of its own in the file.
ModelText letters() {
  return {.tokenizer = text::Tokenizer(
              R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"Ï":2,"ĭ":3},"merges":[]},)"
              R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
              R"("decoder":{"type":"ByteLevel"}})",
              "a test")};
}

// How many of these tokens a text has when it ends; -1: it does not.
int end_of(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& made,
           const std::string& stop) {
  const ModelText text = letters();
  const auto ends = stop_strings(text, prompt, {stop});
  for (std::size_t count = 1; count <= made.size(); ++count)
    if (ends(std::span(made).first(count))) return static_cast<int>(count);
  return -1;
}

TEST(StopStrings, EndATextWithTheirLastToken) {
  EXPECT_EQ(end_of({0}, {0, 1, 0, 1}, "ab"), 2);
  EXPECT_EQ(end_of({0}, {1, 0, 1}, "ab"), 1);  // with the prompt
  EXPECT_EQ(end_of({0, 1}, {1, 0, 0}, "ab"), -1);
}

TEST(StopStrings, EndWithACharacterOfSeveralTokens) {
  ASSERT_EQ(letters().decode(std::vector<std::int32_t>{0, 2, 3}), "aϋ");
  EXPECT_EQ(end_of({0}, {1, 2, 3, 0}, "ϋ"), 3);
  EXPECT_EQ(end_of({0}, {2, 3, 1}, "ϋb"), 3);
  EXPECT_EQ(end_of({2}, {3, 1}, "ϋ"), 1);
  EXPECT_EQ(end_of({2, 3}, {1, 1}, "ϋ"), -1);  // it was there before
}

}  // namespace
}  // namespace trireme::app
