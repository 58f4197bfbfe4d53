// The plan of a tokenize job: its parts, and what identifies each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::text {

// Consecutive files that one rank turns into one part of the result.
struct TokenizePart {
  std::string key;  // of the files, as they are, and all that decides what they become
  std::int64_t bytes = 0;
  std::vector<std::string> files;

  std::string name() const { return "part-" + key; }
};

struct TokenizePlan {
  std::vector<TokenizePart> parts;
  std::int64_t files = 0;

  // For other ranks: rank 0 alone looks for files.
  std::string text() const;
  static TokenizePlan of_text(const std::string& text);
  // The rank that makes each part: the largest first, to the rank that has least.
  std::vector<int> ranks(int count) const;
};

// Cuts `files` into parts, by their sizes alone: any number of ranks has the same parts.
// `settings` says what else decides the result. Throws Error(missing_input).
TokenizePlan plan_tokenize(const std::vector<std::string>& files,
                           const std::string& settings);

}  // namespace trireme::text
