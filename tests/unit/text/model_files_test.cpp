// SentencePiece models and .tiktoken files: what is refused, and merging by ranks alone.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_state.hpp"

namespace trireme::text {
namespace {

std::string variable(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string integer(int number, std::uint64_t value) {
  return variable(static_cast<std::uint64_t>(number) << 3) + variable(value);
}
std::string bytes(int number, const std::string& value) {
  return variable(static_cast<std::uint64_t>(number) << 3 | 2) + variable(value.size()) +
         value;
}
std::string piece(const std::string& text, float score, int kind = 1) {
  const std::string bits(reinterpret_cast<const char*>(&score), 4);
  return bytes(1, bytes(1, text) + variable(2 << 3 | 5) + bits + integer(3, kind));
}
std::string model(int type) { return bytes(2, integer(3, type)); }

void expect_refused(const std::string& content, const std::string& words) {
  try {
    state_of_sentencepiece(content, "x.model");
    ADD_FAILURE() << "was taken; expected " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    const std::string text = error.what();
    EXPECT_NE(text.find(words), text.npos) << text;
    EXPECT_NE(text.find("x.model"), text.npos) << text;
  }
}

TEST(SentencePiece, RefusesBrokenFiles) {
  const std::string unknown = piece("<unk>", 0, 2);
  expect_refused("", "has no pieces");
  expect_refused("{\"model\":{}}", "x.model");
  expect_refused("\x0a", "ends within a number");
  expect_refused(
      "\x0a\x05"
      "ab",
      "announces 5 bytes, of which 2 are there");
  expect_refused(std::string(10, '\xff'), "more than 64 bits");
  expect_refused(std::string("\x02\x00", 2), "impossible number 0");
  expect_refused("\x0b", "unknown kind 3");
  expect_refused("\x0d\x01", "ends within a number");
  expect_refused(integer(1, 7), "the pieces must be bytes");
  expect_refused(bytes(1, bytes(2, "score")), "a score must be a number");
  expect_refused(unknown + piece("a", 0, 9), "unknown kind 9");
  expect_refused(unknown + piece("a", 0) + model(3), "type 3");
  expect_refused(piece("a", 0), "0 unknown pieces");
  expect_refused(unknown + piece("u", 0, 2), "2 unknown pieces");
  expect_refused(unknown + piece("a", 0) + piece("a", 0), "is there twice");
  expect_refused(unknown + piece("", 0), "is empty");
  expect_refused(unknown + piece("\xff", 0), "is no UTF-8");
  expect_refused(unknown + piece("a", std::nanf("")), "no number");
  expect_refused(unknown + piece("<0xZZ>", 0, 6), "<0x00> to <0xFF>");
  expect_refused(unknown + piece("a", 0, 5) + model(2), "is unused");
  expect_refused(unknown + bytes(2, integer(35, 1)), "no piece for byte 0");
  expect_refused(unknown + bytes(3, bytes(2, "abc")), "too short");
  expect_refused(unknown + bytes(5, bytes(2, "abc")), "denormalizer");
  expect_refused(unknown + piece(std::string(2000, 'a'), 0) + model(2), "2000 bytes");
}

// Every byte, then tokens of "a", "b" and "c"; the rank is the order.
struct Ranks {
  std::vector<std::string> tokens;
  std::string file;

  explicit Ranks(std::mt19937& random) {
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    while (tokens.size() < 300) {
      std::string token(2 + random() % 4, 'a');
      for (char& c : token) c = static_cast<char>('a' + random() % 3);
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) add(token);
    }
  }
  void add(const std::string& token) {
    static constexpr char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::uint64_t bits = 0;
    int count = 0;
    for (const char c : token) {
      bits = bits << 8 | static_cast<unsigned char>(c);
      count += 8;
    }
    for (; count % 6 != 0; count += 2) bits <<= 2;
    for (count -= 6; count >= 0; count -= 6) file += digits[bits >> count & 63];
    file += ' ' + std::to_string(tokens.size()) + '\n';
    tokens.push_back(token);
  }
  std::int32_t rank_of(const std::string& token) const {
    const auto found = std::find(tokens.begin(), tokens.end(), token);
    return found == tokens.end() ? INT32_MAX
                                 : static_cast<std::int32_t>(found - tokens.begin());
  }
  // The two neighbours that make the lowest rank, the leftmost of those, until none do.
  std::vector<std::int32_t> encode(const std::string& text) const {
    if (rank_of(text) != INT32_MAX) return {rank_of(text)};
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    for (;;) {
      std::size_t best = 0;
      std::int32_t lowest = INT32_MAX;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const std::int32_t rank = rank_of(parts[i] + parts[i + 1]);
        if (rank < lowest) best = i, lowest = rank;
      }
      if (lowest == INT32_MAX) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<std::int32_t> ids;
    for (const std::string& part : parts) ids.push_back(rank_of(part));
    return ids;
  }
};

constexpr const char* letters = R"({"pattern":"\\p{L}+|[^\\p{L}]+"})";

TEST(Tiktoken, MergesByRankAlone) {
  std::mt19937 random(5);
  for (int round = 0; round < 5; ++round) {
    const Ranks ranks(random);
    const Tokenizer tokenizer(state_of_tiktoken(ranks.file, "x.tiktoken", letters));
    for (int i = 0; i < 30; ++i) {
      std::string text(1 + random() % 40, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      ASSERT_EQ(tokenizer.encode(text, SpecialTokens::leave_out), ranks.encode(text))
          << text;
    }
  }
}

TEST(Tiktoken, RefusesBrokenFiles) {
  std::mt19937 random(6);
  const std::string good = Ranks(random).file;
  const auto refused = [](const std::string& file, const std::string& words,
                          const std::string& wanted) {
    try {
      state_of_tiktoken(file, "x.tiktoken", words);
      ADD_FAILURE() << "was taken; expected " << wanted;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      const std::string text = error.what();
      EXPECT_NE(text.find(wanted), text.npos) << text;
    }
  };
  refused("", letters, "no token for byte 0");
  refused("YQ== 0\nYg==\n", letters, "x.tiktoken:2");
  refused("YQ== 0\n?? 1\n", letters, "x.tiktoken:2");
  refused("YQ== -1\n", letters, "x.tiktoken:1");
  refused("YQ== 99999999999\n", letters, "x.tiktoken:1");
  refused("YQ== 2000000000\n", letters, "far too large");
  refused(good + "YQ== 700\n", letters, "there twice");
  refused(good, "", "write x.tiktoken.json");
  refused(good, "{}", "\"pattern\"");
  refused(good, "[1]", "x.tiktoken.json");
  refused(good, R"({"pattern":"(","x":1})", "\"x\"");
  refused(good, R"({"pattern":"("})", "x.tiktoken.json");
  refused(good, R"({"pattern":"a","special_tokens":{"<s>":7}})", "id 7 of another token");
  refused(good, R"({"pattern":"a","special_tokens":{"<s>":-1}})", "special_tokens");
  refused(good, R"({"pattern":"a","special_tokens":{"é":400}})", "stand for bytes");
}

}  // namespace
}  // namespace trireme::text
