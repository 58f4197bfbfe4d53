// A small legal deck for tests, and what a deck that must fail says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/deck_table.hpp"
#include "config/run_config.hpp"
#include "io/deck.hpp"

namespace trireme::test {

// Dotted keys, so that a test may add any key of any section at the end.
inline const std::string sample_deck = R"(run.steps = 10
model.layers = 2
model.hidden = 64
model.heads = 4
model.sequence = 32
data.paths = ["README.md"]
batch.global = 8
)";

inline io::Deck parse_sample(const std::vector<std::string>& overrides = {},
                             const std::string& more = "") {
  return io::Deck::parse(sample_deck + more, "sample.toml", overrides,
                         config::deck_table());
}

// Message and status of the Error that `work` throws.
template <class Work>
std::pair<std::string, Status> error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.what(), error.status()};
  }
  return {"(no error)", Status::done};
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "text: " << text << "\nmissing: " << part;
}

inline int count_lines(const std::string& text) {
  return 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

// Overrides of the sample that break one rule, and what the message must hold.
struct Case {
  std::vector<std::string> overrides;
  int ranks;
  std::vector<std::string> expected;
  Status status = Status::bad_content;
};

inline std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts) out += part + " ";
  return out;
}

inline void expect_one_problem(const Case& wrong) {
  SCOPED_TRACE(joined(wrong.overrides));
  const auto [message, status] = error_of(
      [&] { config::make_run_config(parse_sample(wrong.overrides), wrong.ranks); });
  for (const auto& part : wrong.expected) expect_contains(message, part);
  EXPECT_EQ(count_lines(message), 1) << message;
  EXPECT_EQ(static_cast<int>(status), static_cast<int>(wrong.status)) << message;
}

// The deck has one problem, which says all of `says`; with `fix`, which it advises, it
// has none.
inline void expect_mended(std::vector<std::string> deck,
                          const std::vector<std::string>& says,
                          const std::vector<std::string>& fix, int ranks = 1) {
  expect_one_problem({deck, ranks, says});
  deck.insert(deck.end(), fix.begin(), fix.end());
  SCOPED_TRACE(joined(deck));
  const auto [message, status] =
      error_of([&] { config::make_run_config(parse_sample(deck), ranks); });
  EXPECT_EQ(static_cast<int>(status), 0) << message;
}

}  // namespace trireme::test
