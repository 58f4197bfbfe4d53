// The cache of pieces: a hash table with open addressing, without memory of its own each.
// SPDX-License-Identifier: Apache-2.0
#include "text/workspace.hpp"

#include <cstring>

namespace trireme::text {
namespace {

// Slots at first, for who encodes one short text, and at most.
constexpr std::size_t least_slots = std::size_t{1} << 8;
constexpr std::size_t most_slots = std::size_t{1} << 17;
constexpr std::size_t most_tokens = std::size_t{1} << 20;

// A multiplication for each 8 bytes; who fills the cache with collisions slows only
// himself.
std::uint64_t hash_of(std::string_view piece) {
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = piece.size() * factor;
  while (piece.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, piece.data(), 8);
    hash = (hash ^ word) * factor;
    hash ^= hash >> 32;
    piece.remove_prefix(8);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, piece.data(), piece.size());
  hash = (hash ^ word) * factor;
  return hash ^ hash >> 29;
}

}  // namespace

PieceCache::PieceCache() : slots_(least_slots) {}

const PieceCache::Slot& PieceCache::slot_of(std::string_view piece,
                                            std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.key_bytes == 0) return slot;
    if (slot.hash == hash && slot.key_bytes == piece.size() &&
        std::memcmp(keys_.data() + slot.key, piece.data(), piece.size()) == 0)
      return slot;
  }
}

bool PieceCache::find(std::string_view piece, std::span<const Token>& tokens) const {
  const Slot& slot = slot_of(piece, hash_of(piece));
  if (slot.key_bytes == 0) return false;
  tokens = std::span(tokens_).subspan(slot.first, slot.count);
  return true;
}

void PieceCache::add(std::string_view piece, std::span<const Token> tokens) {
  if (piece.empty() || piece.size() > longest_piece) return;
  if (used_ >= slots_.size() / 2) grow();
  if (tokens_.size() + tokens.size() > most_tokens) clear();
  const std::uint64_t hash = hash_of(piece);
  auto& slot = const_cast<Slot&>(slot_of(piece, hash));
  if (slot.key_bytes != 0) return;
  slot = {hash, static_cast<std::uint32_t>(keys_.size()),
          static_cast<std::uint32_t>(tokens_.size()),
          static_cast<std::uint16_t>(piece.size()),
          static_cast<std::uint16_t>(tokens.size())};
  keys_ += piece;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

void PieceCache::grow() {
  if (slots_.size() >= most_slots) return clear();
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slot.key_bytes != 0 && slots_[at].key_bytes != 0)
      at = (at + 1) & (slots_.size() - 1);
    if (slot.key_bytes != 0) slots_[at] = slot;
  }
}

void PieceCache::clear() {
  slots_.assign(slots_.size(), {});
  keys_.clear();
  tokens_.clear();
  used_ = 0;
}

}  // namespace trireme::text
