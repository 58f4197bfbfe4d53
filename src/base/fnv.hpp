// FNV-1a (Fowler, Noll, Vo): hashes of bytes, and of numbers taken whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// The hash of nothing, and of what `hash` is of with one more byte, or number.
inline constexpr std::uint64_t fnv64_basis = 0xcbf29ce484222325U;
constexpr std::uint64_t fnv64_with(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001b3U;
}

constexpr std::uint64_t fnv64(std::string_view bytes) {
  std::uint64_t hash = fnv64_basis;
  for (const char byte : bytes) hash = fnv64_with(hash, static_cast<unsigned char>(byte));
  return hash;
}

constexpr std::uint32_t fnv32(std::string_view bytes) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x01000193U;
  return hash;
}

}  // namespace trireme
