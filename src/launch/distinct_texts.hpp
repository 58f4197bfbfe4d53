// DistinctTexts: one text per rank, of which each distinct one is stored once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::launch {

// One text per rank, dictionary-encoded: each distinct text is stored once and a rank
// takes 4 bytes. Nodes of one machine repeat the same few texts.
class DistinctTexts {
 public:
  DistinctTexts() = default;
  explicit DistinctTexts(const std::string& text) { add(text); }

  // Adds the text of the next rank.
  void add(const std::string& text);
  // Adds the texts of the ranks that follow.
  void append(const DistinctTexts& later);

  // The number of ranks.
  int size() const { return static_cast<int>(indices_.size()); }
  const std::string& at(int rank) const;
  // The number of distinct texts.
  std::size_t distinct() const { return texts_.size(); }

  // Serialises the list.
  std::string text() const;
  // Throws Error(internal) for a text that text() did not write.
  static DistinctTexts from_text(const std::string& text);

 private:
  std::uint32_t index_of(const std::string& text);

  std::vector<std::string> texts_;               // the dictionary
  std::map<std::string, std::uint32_t> lookup_;  // from a text to its index in texts_
  std::vector<std::uint32_t> indices_;           // of each rank's text
};

}  // namespace trireme::launch
