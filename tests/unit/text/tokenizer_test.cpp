// Merging against a plain loop, refusals of files, and the end of documents.
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "base/error.hpp"
#include "text/config_node.hpp"
#include "text/json_lines.hpp"

namespace trireme::text {
namespace {

struct Toy {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;

  // Merges of what is there already; each makes a token of its own.
  explicit Toy(std::mt19937& random) {
    std::set<std::string> seen(tokens.begin(), tokens.end());
    while (merges.size() < 40) {
      const auto& left = tokens[random() % tokens.size()];
      const auto& right = tokens[random() % tokens.size()];
      const std::string both = left + right;
      if (both.size() > 9 || !seen.insert(both).second) continue;
      merges.emplace_back(left, right);
      tokens.push_back(both);
    }
  }
  std::string json() const {
    std::string vocabulary, list;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      vocabulary +=
          (i > 0 ? "," : "") + json_of_text(tokens[i]) + ":" + std::to_string(i);
    for (const auto& [left, right] : merges)
      list += (list.empty() ? "" : ",") + json_of_text(left + " " + right);
    return R"({"model":{"type":"BPE","vocab":{)" + vocabulary + R"(},"merges":[)" + list +
           "]}}";
  }
  // The pair of the lowest rank, the leftmost of those, merged until there is none.
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    for (bool merged = true; merged;) {
      merged = false;
      for (const auto& [left, right] : merges) {
        for (std::size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
          if (parts[i] != left || parts[i + 1] != right) continue;
          parts[i] += right;
          parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          merged = true;
        }
        if (merged) break;
      }
    }
    std::vector<std::int32_t> ids;
    for (const std::string& part : parts)
      ids.push_back(static_cast<std::int32_t>(
          std::find(tokens.begin(), tokens.end(), part) - tokens.begin()));
    return ids;
  }
};

// Words of either of the two ways: short ones, and some that are too long for a search
// through all ranks.
TEST(Bpe, MergesAsAPlainLoopDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round) {
    const Toy toy(random);
    const Tokenizer tokenizer(toy.json(), "toy");
    for (int i = 0; i < 20; ++i) {
      std::string text((i % 10 == 9 ? 257 : 1) + random() % 60, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      const auto expected = toy.encode(text);
      ASSERT_EQ(tokenizer.encode(text, SpecialTokens::leave_out), expected) << text;
      ASSERT_EQ(tokenizer.encode_with_offsets(text, SpecialTokens::leave_out).ids,
                expected)
          << text;
    }
  }
}

// A word of a megabyte: merging a list naively would take hours.
TEST(Bpe, MergesALongWord) {
  std::mt19937 random(12);
  const Toy toy(random);
  const Tokenizer tokenizer(toy.json(), "toy");
  std::string text(1 << 20, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 3);
  const auto ids = tokenizer.encode(text, SpecialTokens::leave_out);
  std::string back;
  for (const std::int32_t id : ids) back += *tokenizer.token_of(id);
  EXPECT_EQ(back, text);
  EXPECT_LT(ids.size(), text.size());
}

// A character that is dropped, because nothing stands for it, makes neighbours of those
// beside it. (As in the `tokenizers` library.)
TEST(Bpe, MergesWhatADroppedCharacterStoodBetween) {
  const auto ids = [](const std::string& keys, const std::string& text) {
    const Tokenizer tokenizer(
        R"({"model":{"type":"BPE","vocab":{"a":0,"▁":1,"▁▁":2,"▁▁▁▁":3,"?":4,"<0x20>":5},
            "merges":["▁ ▁","▁▁ ▁▁"])" +
            keys + "}}",
        "t.json");
    return tokenizer.encode(text, SpecialTokens::leave_out);
  };
  EXPECT_EQ(ids("", "a▁▁ ▁▁"), (std::vector{0, 3}));
  EXPECT_EQ(ids(R"(,"byte_fallback":true)", "a▁▁b▁▁"), (std::vector{0, 3}));
  EXPECT_EQ(ids(R"(,"byte_fallback":true)", "a▁▁ ▁▁"), (std::vector{0, 2, 5, 2}));
  EXPECT_EQ(ids(R"(,"unk_token":"?")", "a▁▁ ▁▁"), (std::vector{0, 2, 4, 2}));
}

// White space that one token swallows is no token of its own where the other one swallows
// what stands before it; else both are there. (As in the `tokenizers` library.)
TEST(Tokenizer, TokensOfWhiteSpaceMeetTokensThatSwallowIt) {
  const auto ids = [](const std::string& flags, const std::string& text) {
    const Tokenizer tokenizer(
        R"({"model":{"type":"BPE","vocab":{"a":0,"b":1," ":2},"merges":[]},
            "added_tokens":[{"id":3,"content":"AA","normalized":false,"rstrip":true},
            {"id":4,"content":"  ","normalized":false)" +
            flags + "}]}",
        "t.json");
    return tokenizer.encode(text, SpecialTokens::leave_out);
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ids("", "aAA  b"), (Ids{0, 3, 4, 1}));
  EXPECT_EQ(ids("", "aAA   b"), (Ids{0, 3, 4, 2, 1}));
  EXPECT_EQ(ids(R"(,"lstrip":true)", "aAA  b"), (Ids{0, 3, 1}));
  EXPECT_EQ(ids(R"(,"lstrip":true)", "a     b"), (Ids{0, 4, 4, 2, 1}));
  EXPECT_EQ(ids(R"(,"lstrip":true,"rstrip":true)", "a     b"), (Ids{0, 4, 1}));
  EXPECT_EQ(ids(R"(,"rstrip":true)", "aAA     AA"), (Ids{0, 3, 4, 4, 3}));
}

// What replaces a match stands for its last character, so that no mark is put before it
// where only the beginning of a text gets one. (As in the `tokenizers` library.)
TEST(Tokenizer, AReplacementIsItsMatchsLastCharacter) {
  const Tokenizer tokenizer(
      R"({"model":{"type":"WordLevel","vocab":{"xa":0,"▁xa":1,"?":2},"unk_token":"?"},
          "normalizer":{"type":"Replace","pattern":{"Regex":"[0-9]+"},"content":"x"},
          "pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first",
                           "split":false}})",
      "t.json");
  const Encoding one = tokenizer.encode_with_offsets("1a", SpecialTokens::leave_out);
  EXPECT_EQ(one.ids, std::vector{1});
  EXPECT_EQ(one.offsets, (std::vector<Range>{{0, 2}}));
  const Encoding two = tokenizer.encode_with_offsets("12a", SpecialTokens::leave_out);
  EXPECT_EQ(two.ids, std::vector{0});
  EXPECT_EQ(two.offsets, (std::vector<Range>{{1, 3}}));
  EXPECT_EQ(tokenizer.encode("12a", SpecialTokens::leave_out), std::vector{0});
}

TEST(JsonLines, ErrorsNameOneLine) {
  try {
    text_of_json("\"a", "f.jsonl:7");
    ADD_FAILURE() << "was taken";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("f.jsonl:7: is no JSON: parse error at column 3: "))
        << error.what();
  }
}

// Lists within lists, which a message would show and which are copied, by recursion.
TEST(JsonLines, DeepLinesAreRefused) {
  for (const std::size_t depth : {std::size_t{3}, std::size_t{500'000}}) {
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    try {
      ids_of_json(deep, "f.jsonl:7");
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("f.jsonl:7: ")) << message;
      EXPECT_LT(message.size(), 100u);
    }
  }
}

// Lines with one member are read in a shorter way, which takes and refuses what the
// library for JSON does. Parts of lines in random order, mostly whole ones.
TEST(JsonLines, SoleTextsAreReadAsTheLibraryReadsThem) {
  const std::vector<std::string> parts = {"a",       "\"",      "\\",
                                          "\\\"",    "\\\\",    "\\n",
                                          "\\u0041", "\\u00e9", "\\uD83D\\uDE00",
                                          "\\ud800", "\\u12",   "\\u0000",
                                          "\\x",     "\t",      "{",
                                          "}",       " ",       "é",
                                          "\xff",    "\x7f",    ",",
                                          "\\/",     "\\u+123"};
  std::mt19937 random(13);
  int taken = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line = random() % 4 > 0 ? "{\"text\":\"" : " {\t\"text\" : \"";
    for (auto n = random() % 6; n > 0; --n) line += parts[random() % parts.size()];
    line += random() % 8 > 0 ? "\"}" : random() % 2 > 0 ? "\" } " : "\",\"b\":1}";
    std::optional<std::string> expected, got;
    const auto json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("text"))
      expected = json["text"].get<std::string>();
    try {
      got = field_of_json(line, "text", "f.jsonl:1");
    } catch (const Error&) {
    }
    ASSERT_EQ(got, expected) << line;
    ++(got ? taken : refused);
  }
  EXPECT_GT(taken, 5000);
  EXPECT_GT(refused, 5000);
}

// Bytes of one character with a special token between them, in every order.
TEST(Tokenizer, StreamsWhatItDecodes) {
  const Tokenizer tokenizer(
      R"({"model":{"type":"BPE","vocab":{"<0xE4>":0,"<0xBD>":1,"<0xA0>":2,"a":3},
          "merges":[]},"decoder":{"type":"ByteFallback"},"added_tokens":[
          {"id":4,"content":"</s>","special":true}]})",
      "t.json");
  for (const bool skip : {false, true})
    for (int number = 0; number < 5 * 5 * 5 * 5 * 5; ++number) {
      std::vector<std::int32_t> ids;
      for (int rest = number; ids.size() < 5; rest /= 5) ids.push_back(rest % 5);
      StreamDecoder stream(tokenizer, skip);
      std::string text;
      for (const std::int32_t id : ids) text += stream.put(id);
      text += stream.finish();
      ASSERT_EQ(text, tokenizer.decode(ids, skip)) << number;
    }
}

void expect_refused(const std::string& json, const std::string& words) {
  try {
    const Tokenizer tokenizer(json, "t.json");
    ADD_FAILURE() << "was taken: " << json;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Tokenizer, RefusesTokensOfWhichNothingIsLeft) {
  expect_refused(
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"normalizer":{"type":"Strip"},
          "added_tokens":[{"id":1,"content":" ","normalized":true}]})",
      "\"normalized\": false");
}

TEST(Tokenizer, RefusesWhatItDoesNotUnderstand) {
  const std::string model = R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]})";
  expect_refused("", "is no JSON");
  expect_refused("{\"a\":", "is no JSON");
  expect_refused("[]", "no tokenizer.json");
  const std::size_t deep = 100'000;
  std::string nested;
  for (std::size_t i = 0; i < deep; ++i)
    nested += R"({"type":"Sequence","normalizers":[)";
  nested += R"({"type":"NFC"})";
  for (std::size_t i = 0; i < deep; ++i) nested += "]}";
  expect_refused("{" + model + R"(,"normalizer":)" + nested + "}", "are open at once");
  expect_refused("{" + model + R"(,"future":1})", "has \"future\"");
  expect_refused("{" + model + R"(,"truncation":{"max_length":4}})", "'truncation'");
  expect_refused("{" + model + R"(,"normalizer":{"type":"Magic"}})", "\"Magic\"");
  expect_refused("{" + model + R"(,"pre_tokenizer":{"type":"UnicodeSyllables"}})",
                 "\"UnicodeSyllables\"");
  expect_refused("{" + model + R"(,"decoder":{"type":"CTC","x":1}})", "decoder");
  expect_refused("{" + model +
                     R"(,"decoder":{"type":"CTC","pad_token":"","cleanup":true,)" +
                     R"("word_delimiter_token":"|"}})",
                 "'decoder' has an empty pad_token");
  expect_refused(
      "{" + model +
          R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?~a)b"},"behavior":"Isolated"}})",
      "the group (?~a is not supported");
  expect_refused(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}})",
                 "merges");
  expect_refused(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", "the id -1");
  expect_refused(R"({"model":{"type":"BPE","vocab":{"a":4000000000},"merges":[]}})",
                 "4000000000");
  expect_refused("{" + model + R"(,"added_tokens":[{"id":7,"content":"<x>"}]})",
                 "the id 7, but readers of such files give it 1");
  expect_refused(R"({"model":{"type":"Unigram","vocab":[["a",0.0]],"unk_id":3}})",
                 "unk_id");
}

// The texts are those of the `tokenizers` library.
TEST(Tokenizer, DecodesWhatAModelHears) {
  const auto heard = [](const std::string& cleanup,
                        const std::vector<std::int32_t>& ids) {
    const Tokenizer tokenizer(
        R"({"model":{"type":"WordLevel","unk_token":"<pad>","vocab":{"<pad>":0,"|":1,"a":2,)"
        R"("b":3," do not":4,"x .":5," ?":6,"<pad>|<pad>":7}},"decoder":{"type":"CTC",)"
        R"("pad_token":"<pad>","word_delimiter_token":"|","cleanup":)" +
            cleanup + "}}",
        "t");
    StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.put(id);
    EXPECT_EQ(streamed + stream.finish(), tokenizer.decode(ids, false));
    return tokenizer.decode(ids, false);
  };
  EXPECT_EQ(heard("true", {0, 0, 2, 3, 3, 2, 2, 0, 2, 3, 3, 3, 0, 3}), "abaabb");
  EXPECT_EQ(heard("true", {2, 1, 1, 3, 4, 5, 7, 6}), "a b don'tx. ?");
  EXPECT_EQ(heard("false", {2, 1, 1, 3, 4, 5, 7, 6}), "a|b do notx .| ?");
  EXPECT_EQ(heard("true", {}), "");
}

TEST(Tokenizer, RefusesIdsThatNoTokenHas) {
  const Tokenizer tokenizer(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
                            "t");
  const std::vector<std::int32_t> ids = {0, 1};
  EXPECT_THROW(tokenizer.decode(ids, false), Error);
  EXPECT_EQ(tokenizer.vocabulary(), 1);
}

TEST(Tokenizer, IdsMayBeLeftOut) {
  const Tokenizer tokenizer(
      R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":5,"b":1}}})", "t");
  EXPECT_EQ(tokenizer.vocabulary(), 6);
  EXPECT_EQ(tokenizer.encode("b", SpecialTokens::leave_out),
            std::vector<std::int32_t>{1});
  EXPECT_EQ(tokenizer.encode("c", SpecialTokens::leave_out),
            std::vector<std::int32_t>{5});
  EXPECT_EQ(tokenizer.token_of(3), nullptr);
}

TEST(Tokenizer, KnowsTheEndOfDocuments) {
  const auto with = [](const std::string& tokens) {
    return Tokenizer(
               R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[)" +
                   tokens + "]}",
               "t")
        .end_token();
  };
  EXPECT_EQ(with(R"({"id":1,"content":"</s>","special":true})"), 1);
  EXPECT_EQ(with(R"({"id":1,"content":"</s>","special":false})"), std::nullopt);
  EXPECT_EQ(with(""), std::nullopt);
  EXPECT_EQ(with(R"({"id":1,"content":"</s>","special":true},)"
                 R"({"id":2,"content":"<eos>","special":true})"),
            std::nullopt);
}

}  // namespace
}  // namespace trireme::text
