// Documents keep their order on any number of threads, and the first error ends them.
// SPDX-License-Identifier: Apache-2.0
#include "text/parallel_encoder.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "text/json_lines.hpp"

namespace trireme::text {
namespace {

constexpr const char* tokenizer_json = R"({"version":"1.0","added_tokens":[],
  "normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
  "model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},
  "merges":["a b","ab c"]}})";

// Of most lengths from none to a few batches; their text says which one they are.
std::string text_of(std::size_t i) {
  std::string text;
  for (std::size_t k = 0; k < i * i * 37 % 9001; ++k) text += "abc"[(i + k * k / 3) % 3];
  return text;
}

Document document_of(std::size_t i) {
  return {"{\"text\": " + json_of_text(text_of(i)) + "}", "text",
          "place " + std::to_string(i)};
}

class ParallelEncoderTest : public testing::TestWithParam<int> {
 protected:
  const Tokenizer tokenizer_{tokenizer_json, "the test"};
  std::vector<std::vector<std::int32_t>> taken_;
  ParallelEncoder encoder_{tokenizer_, GetParam(),
                           [this](const auto& ids, std::int64_t text_bytes) {
                             EXPECT_GT(text_bytes, 0);
                             taken_.push_back(ids);
                           }};
};

TEST_P(ParallelEncoderTest, KeepsTheOrder) {
  constexpr std::size_t documents = 500;  // about 2 MB
  std::vector<std::vector<std::int32_t>> expected;
  for (std::size_t i = 0; i < documents; ++i) {
    encoder_.add(document_of(i));
    const std::string text = text_of(i);
    if (!text.empty())
      expected.push_back(tokenizer_.encode(text, SpecialTokens::leave_out));
  }
  encoder_.finish();
  EXPECT_EQ(taken_, expected);
  encoder_.add(document_of(5));
  encoder_.finish();
  EXPECT_EQ(taken_.size(), expected.size() + 1);
}

TEST_P(ParallelEncoderTest, ThrowsWhatTheFirstBrokenDocumentThrows) {
  std::string what;
  std::size_t before = 0;
  try {
    for (std::size_t i = 0; i < 500; ++i) {
      if (i == 300 || i == 400) {
        encoder_.add({"{\"text\": 5}", "text", "place " + std::to_string(i)});
        continue;
      }
      if (i < 300 && !text_of(i).empty()) ++before;
      encoder_.add(document_of(i));
    }
    encoder_.finish();
  } catch (const Error& error) {
    what = error.what();
  }
  EXPECT_EQ(what.find("place 300"), 0U) << what;
  EXPECT_EQ(taken_.size(), before);
}

TEST_P(ParallelEncoderTest, TurnsComeBetweenTheirDocuments) {
  std::vector<std::pair<int, std::vector<std::int32_t>>> expected, got;
  int part = -1;
  ParallelEncoder encoder(tokenizer_, GetParam(), [&](const auto& ids, std::int64_t) {
    got.push_back({part, ids});
  });
  encoder.in_turn([&] { part = 0; });
  for (std::size_t i = 0; i < 400; ++i) {
    encoder.add(document_of(i));
    if (!text_of(i).empty())
      expected.push_back({static_cast<int>(i / 7),
                          tokenizer_.encode(text_of(i), SpecialTokens::leave_out)});
    if (i % 7 == 6) encoder.in_turn([&] { ++part; });
  }
  encoder.finish();
  EXPECT_EQ(got, expected);
  encoder.in_turn([&] { part = 1000; });
  encoder.finish();
  EXPECT_EQ(part, 1000);
}

// Parts before the error are whole, and none behind it begins.
TEST_P(ParallelEncoderTest, NoTurnComesBehindAnError) {
  std::vector<int> turns;
  const auto add_part = [&](int part, std::size_t documents) {
    encoder_.in_turn([&, part] { turns.push_back(part); });
    for (std::size_t i = 0; i < documents; ++i) encoder_.add(document_of(i));
  };
  std::string what;
  try {
    add_part(0, 100);
    add_part(1, 0);
    add_part(2, 50);
    encoder_.add({"{\"text\": 5}", "text", "place 2"});
    for (int part = 3; part < 9; ++part) add_part(part, 100);
    encoder_.finish();
  } catch (const Error& error) {
    what = error.what();
  }
  EXPECT_EQ(what.find("place 2"), 0U) << what;
  EXPECT_EQ(turns, (std::vector<int>{0, 1, 2}));
  encoder_.finish();
  EXPECT_EQ(turns.size(), 3U);
}

TEST_P(ParallelEncoderTest, WhatATurnThrowsEndsIt) {
  encoder_.add(document_of(5));
  encoder_.in_turn([] { throw std::runtime_error("the disk is full"); });
  encoder_.add(document_of(7));
  EXPECT_THROW(encoder_.finish(), std::runtime_error);
  EXPECT_EQ(taken_.size(), 1U);
  encoder_.finish();
  EXPECT_EQ(taken_.size(), 1U);
}

// Whatever the documents before a file that cannot be read become, is said first.
TEST_P(ParallelEncoderTest, AFileThatCannotBeReadWaitsForItsTurn) {
  const auto refusal = [&](std::size_t broken) -> std::string {
    try {
      for (std::size_t i = 0; i < 50; ++i)
        encoder_.add(i == broken ? Document{"{", "text", "place 10"} : document_of(i));
      encoder_.add_file("/nowhere/file.jsonl", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(50).find("/nowhere/file.jsonl"), 0U);
  const std::size_t all = taken_.size();
  EXPECT_EQ(refusal(10).find("place 10"), 0U);
  EXPECT_LT(taken_.size(), all + 10);
}

TEST_P(ParallelEncoderTest, MayBeLeftWithWorkUnderWay) {
  for (std::size_t i = 0; i < 300; ++i) encoder_.add(document_of(i));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelEncoderTest, testing::Values(1, 2, 5),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace
}  // namespace trireme::text
