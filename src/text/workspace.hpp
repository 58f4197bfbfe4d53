// Working memory of one thread that encodes: pieces seen before, and buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/stages.hpp"

namespace trireme::text {

// Pieces and their tokens. Text repeats itself: nine of ten pieces have been met before.
// It empties itself when it is full, so that its memory is bounded.
class PieceCache {
 public:
  static constexpr std::size_t longest_piece = 256;

  PieceCache();
  // Whether the piece was added, and its tokens, which stay until the next add().
  bool find(std::string_view piece, std::span<const Token>& tokens) const;
  void add(std::string_view piece, std::span<const Token> tokens);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t key = 0, first = 0;
    std::uint16_t key_bytes = 0, count = 0;  // key_bytes = 0: free
  };
  const Slot& slot_of(std::string_view piece, std::uint64_t hash) const;
  void grow();
  void clear();

  std::vector<Slot> slots_;
  std::string keys_;
  std::vector<Token> tokens_;
  std::size_t used_ = 0;
};

struct Symbol {
  std::int32_t id;
  std::uint32_t bytes;
  std::int32_t previous, next;
};

struct PendingMerge {
  std::int32_t rank, new_id;
  std::uint32_t position;
  bool operator<(const PendingMerge& other) const {  // the heap's top is the lowest
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

struct Workspace {
  const void* owner = nullptr;  // the model whose pieces the cache holds
  PieceCache cache;
  std::vector<Symbol> symbols;
  std::vector<PendingMerge> heap;
  std::vector<Token> tokens;
};

}  // namespace trireme::text
