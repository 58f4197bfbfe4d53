// RankLooks: what ranks run on, each kind of it once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::launch {

// Texts of ranks in order. On the nodes of one machine the same few come again and again:
// a rank takes four bytes.
class RankLooks {
 public:
  RankLooks() = default;
  explicit RankLooks(const std::string& look) { add(look); }

  void add(const std::string& look);
  // The ranks that follow.
  void append(const RankLooks& next);

  int ranks() const { return static_cast<int>(kinds_.size()); }
  const std::string& of(int rank) const;
  std::size_t kinds() const { return looks_.size(); }

  std::string text() const;
  // Throws Error(internal) for a text that is none.
  static RankLooks from_text(const std::string& text);

 private:
  std::uint32_t kind_of(const std::string& look);

  std::vector<std::string> looks_;
  std::map<std::string, std::uint32_t> numbers_;  // of the looks
  std::vector<std::uint32_t> kinds_;              // of each rank
};

}  // namespace trireme::launch
