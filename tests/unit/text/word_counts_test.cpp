// WordCounts: text that is cut has the words of the whole, on any number of threads.
// SPDX-License-Identifier: Apache-2.0
#include "text/word_counts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/error.hpp"

namespace trireme::text {
namespace {

using Counts = std::map<std::string, std::int64_t>;

Counts counts_of(const std::vector<std::string>& documents, std::size_t threads) {
  WordCounts counter;
  std::vector<Document> all;
  std::int64_t bytes = 0;
  for (const std::string& text : documents) {
    all.push_back({text, {}, {}});
    bytes += std::ssize(text);
  }
  EXPECT_EQ(counter.add(std::move(all), threads), bytes);
  Counts counts;
  counter.for_each([&](std::string_view word, std::int64_t count) {
    EXPECT_TRUE(counts.emplace(word, count).second) << word;
  });
  EXPECT_EQ(counter.words(), std::ssize(counts));
  return counts;
}

// Line ends with blanks, tabs, wide white space and signs around them.
std::string ragged_text(std::size_t pieces) {
  const std::vector<std::string> all = {"don't", "\n", " ",  "\n\n", "\t\n",
                                        "x1",    "\n", "  ", "é",    "\u3000",
                                        "\r\n",  "''", "\n", "end",  "\u0085"};
  std::string text;
  std::size_t state = 7;
  for (std::size_t i = 0; i < pieces; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += all[(state >> 33) % all.size()];
  }
  return text;
}

TEST(CutBetweenWords, PartsHaveTheWordsOfTheWhole) {
  for (const std::size_t pieces : {0, 1, 5, 50, 400}) {
    const std::string text = ragged_text(pieces);
    const Counts whole = counts_of({text}, 1);
    for (const std::size_t bytes : {0, 1, 7, 60}) {
      std::vector<std::string> parts;
      std::string joined;
      for (const std::string_view part : cut_between_words(text, bytes)) {
        parts.emplace_back(part);
        joined += part;
      }
      EXPECT_EQ(joined, text);
      EXPECT_EQ(counts_of(parts, 1), whole) << bytes;
      if (pieces == 400 && bytes < 60) {
        EXPECT_GT(parts.size(), 5u);
      }
    }
  }
}

TEST(WordCounts, DoNotDependOnThreads) {
  // More than a part of a long document, and short ones.
  std::vector<std::string> documents = {ragged_text(900000), "", "a b", "a b"};
  ASSERT_GT(documents[0].size(), std::size_t{1} << 20);
  const Counts one = counts_of(documents, 1);
  EXPECT_EQ(counts_of(documents, 4), one);
}

TEST(WordCounts, NameTheFirstBrokenLine) {
  WordCounts counter;
  std::vector<Document> lines;
  for (int i = 1; i <= 100; ++i)
    lines.push_back(
        {i % 40 == 0 ? "{}" : R"({"text": "a"})", "text", "lines:" + std::to_string(i)});
  try {
    counter.add(std::move(lines), 4);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("lines:40")) << error.what();
  }
}

}  // namespace
}  // namespace trireme::text
