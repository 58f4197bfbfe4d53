// Trained tokenizers are those of the `tokenizers` library, byte for byte.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "io/digest.hpp"
#include "text/bpe_trainer.hpp"
#include "text/json_lines.hpp"
#include "text/tokenizer.hpp"

namespace trireme::text {
namespace {

std::string folder() {
  const char* source = std::getenv("TRIREME_SOURCE");
  return std::string(source != nullptr ? source : ".") + "/tests/reference/";
}

// As corpus() of make_trained.py.
std::vector<std::string> corpus(std::size_t kind) {
  static const std::array<std::vector<std::string>, 5> alphabets = {{
      {"a", "b"},
      {"a", "b", "c", "'"},
      {"a", "e", "i", "o", "u", "n", "r", "s", "t", "l", "0", "1", "2", "3", "."},
      {"a", "\u00e9", "\u4f60", "\U0001f600", "\n", "\t", " ", "-"},
      {"\"", "\\", std::string(1, '\0'), "\u007f", "\u0120", "x"},
  }};
  const auto& letters = alphabets[kind];
  std::uint64_t state = 1 + kind;
  const auto draw = [&](std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state >> 33) % n);
  };
  std::vector<std::string> documents(40);
  for (std::string& text : documents)
    for (int word = 0; word < 60; ++word) {
      for (std::size_t length = 1 + draw(9); length > 0; --length) {
        const std::size_t a = draw(letters.size()), b = draw(letters.size());
        text += letters[std::min(a, b)];
      }
      text += ' ';
    }
  return documents;
}

std::string trained(const std::vector<std::string>& documents, std::int64_t size,
                    std::int64_t least, int threads = 1) {
  BpeTrainer trainer(threads);
  for (const std::string& document : documents) trainer.add({document, {}, {}});
  return trainer.train(
      {.size = size, .min_frequency = least, .end_token = "<|endoftext|>"});
}

TEST(BpeTrainer, MakesTheReferencesFile) {
  std::ifstream in(folder() + "trained/odd.json");
  const std::string wanted{std::istreambuf_iterator<char>(in), {}};
  std::ifstream lines(folder() + "tokenizers/texts.txt");
  std::vector<std::string> texts;
  for (std::string line; std::getline(lines, line);)
    texts.push_back(text_of_json(line, "texts.txt"));
  const std::string made = trained(texts, 600, 2);
  ASSERT_GT(wanted.size(), 10000u);
  EXPECT_TRUE(made == wanted) << made.substr(0, 2000);
  const Tokenizer tokenizer(made, "made");
  EXPECT_EQ(tokenizer.vocabulary(), 600);
  EXPECT_EQ(tokenizer.end_token(), 0);
}

TEST(BpeTrainer, MakesFilesOfTheReferencesDigests) {
  std::ifstream in(folder() + "trained/digests.txt");
  int cases = 0;
  std::size_t kind = 0;
  std::int64_t size = 0, least = 0;
  for (std::string digest; in >> kind >> size >> least >> digest; ++cases)
    for (const int threads : {1, 3})
      EXPECT_EQ(io::digest_of(trained(corpus(kind), size, least, threads)), digest)
          << kind << ' ' << size << ' ' << least;
  EXPECT_EQ(cases, 8);
}

}  // namespace
}  // namespace trireme::text
