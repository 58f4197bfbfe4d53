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

std::uint64_t load8(const char* at) {
  std::uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

std::uint64_t load4(const char* at) {
  std::uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}

// Both halves of the product of all 128 bits. Who fills the cache with collisions slows
// only himself.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

constexpr std::uint64_t factor = 0x9E3779B97F4A7C15u;

}  // namespace

PieceCache::PieceCache() : slots_(least_slots) {}

// Of a short piece its bytes, some of them twice: with their number they say all of it.
PieceCache::Key PieceCache::key_of(std::string_view piece) {
  const char* p = piece.data();
  const std::size_t n = piece.size();
  if (n > 16) {
    std::uint64_t hash = n * factor;
    for (std::size_t at = 0; at + 8 < n; at += 8)
      hash = mixed(hash ^ load8(p + at), factor);
    return {mixed(hash ^ load8(p + n - 8), factor), 0};
  }
  if (n >= 8) return {load8(p), load8(p + n - 8)};
  if (n >= 4) return {load4(p) | load4(p + n - 4) << 32, 0};
  const auto byte = [&](std::size_t at) -> std::uint64_t {
    return static_cast<unsigned char>(p[at]);
  };
  return {byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16, 0};
}

std::uint64_t PieceCache::hash_of(const Key& key, std::size_t bytes) {
  if (!is_short(bytes)) return key.low;
  return mixed(key.low ^ factor, key.high ^ (0xD6E8FEB86659FD93u + bytes));
}

const PieceCache::Slot& PieceCache::slot_of(std::string_view piece) const {
  const std::size_t mask = slots_.size() - 1;
  const Key key = key_of(piece);
  const bool is_long = !is_short(piece.size());
  for (std::size_t at = hash_of(key, piece.size()) & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.key_bytes == 0) return slot;
    if (slot.key_bytes != piece.size() || slot.key.low != key.low) continue;
    if (!is_long
            ? slot.key.high == key.high
            : std::memcmp(keys_.data() + slot.key.high, piece.data(), piece.size()) == 0)
      return slot;
  }
}

bool PieceCache::find(std::string_view piece, std::span<const Token>& tokens) const {
  const Slot& slot = slot_of(piece);
  if (slot.key_bytes == 0) return false;
  tokens = std::span(tokens_).subspan(slot.first, slot.count);
  return true;
}

bool PieceCache::append(std::string_view piece, std::vector<std::int32_t>& ids) const {
  const Slot& slot = slot_of(piece);
  if (slot.key_bytes == 0) return false;
  if (slot.count > 0) ids.push_back(slot.id);
  for (std::uint32_t i = 1; i < slot.count; ++i)
    ids.push_back(tokens_[slot.first + i].id);
  return true;
}

void PieceCache::add(std::string_view piece, std::span<const Token> tokens) {
  if (piece.empty() || piece.size() > longest_piece) return;
  if (used_ >= slots_.size() / 2) grow();
  if (tokens_.size() + tokens.size() > most_tokens) clear();
  auto& slot = const_cast<Slot&>(slot_of(piece));
  if (slot.key_bytes != 0) return;
  slot = {key_of(piece), static_cast<std::uint32_t>(tokens_.size()),
          tokens.empty() ? 0 : tokens.front().id,
          static_cast<std::uint16_t>(piece.size()),
          static_cast<std::uint16_t>(tokens.size())};
  if (!is_short(piece.size())) {
    slot.key.high = keys_.size();
    keys_ += piece;
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

void PieceCache::grow() {
  if (slots_.size() >= most_slots) return clear();
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key_bytes == 0) continue;
    std::size_t at = hash_of(slot.key, slot.key_bytes) & (slots_.size() - 1);
    while (slots_[at].key_bytes != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

void PieceCache::clear() {
  slots_.assign(slots_.size(), {});
  keys_.clear();
  tokens_.clear();
  used_ = 0;
}

}  // namespace trireme::text
