// Working memory of one thread that encodes: pieces seen before, and buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/merge_table.hpp"
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
  // The same, but its tokens' ids are appended.
  bool append(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void add(std::string_view piece, std::span<const Token> tokens);

 private:
  // A piece of up to 16 bytes is in its slot whole; of a longer one there are a hash and
  // where it is in keys_.
  struct Key {
    std::uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    std::uint32_t first = 0;                 // of its tokens
    std::int32_t id = 0;                     // of the first token
    std::uint16_t key_bytes = 0, count = 0;  // key_bytes = 0: free
  };
  static bool is_short(std::size_t bytes) { return bytes <= sizeof(Key); }
  static Key key_of(std::string_view piece);
  static std::uint64_t hash_of(const Key& key, std::size_t bytes);
  const Slot& slot_of(std::string_view piece) const;
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
  std::vector<Merge> merges;         // of each symbol with the next
  std::vector<std::uint32_t> ranks;  // theirs
  std::vector<Token> tokens;
};

}  // namespace trireme::text
