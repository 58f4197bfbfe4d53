// MergeTable: which pairs of tokens merge, in what order, and into what.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::text {

struct Merge {
  std::int32_t rank = -1, new_id = -1;  // rank -1: none
};

// A hash table with open addressing: it is asked for every pair of every new word.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges = 0) {
    std::size_t slots = 16;
    while (slots < merges * 2) slots *= 2;
    slots_.assign(slots, {});
  }
  // A pair that is there gets the new rank.
  void add(std::int32_t left, std::int32_t right, Merge merge) {
    slots_[place_of(key(left, right))] = {key(left, right), merge};
  }
  Merge find(std::int32_t left, std::int32_t right) const {
    return slots_[place_of(key(left, right))].merge;
  }

 private:
  static constexpr std::uint64_t free_key = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = free_key;
    Merge merge;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t place_of(std::uint64_t wanted) const {
    std::uint64_t hash = wanted * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].key != free_key && slots_[at].key != wanted)
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace trireme::text
