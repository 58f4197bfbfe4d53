// SentencePiece's table of characters: a double-array trie and what its keys become.
// SPDX-License-Identifier: Apache-2.0
#include "text/character_map.hpp"

#include <cstring>

namespace trireme::text {
namespace {

bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFu; }
std::size_t offset(std::uint32_t unit) {
  return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
}

}  // namespace

std::optional<CharacterMap> CharacterMap::parse(std::string_view bytes,
                                                std::string& why) {
  std::uint32_t size = 0;
  if (bytes.size() < 4) {
    why = "is too short for a table of characters";
    return {};
  }
  std::memcpy(&size, bytes.data(), 4);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4) {
    why = "does not hold the trie that it announces";
    return {};
  }
  CharacterMap map;
  map.units_.resize(size / 4);
  std::memcpy(map.units_.data(), bytes.data() + 4, size);
  map.images_ = bytes.substr(4 + size);
  return map;
}

std::optional<CharacterMap::Match> CharacterMap::find(std::string_view text,
                                                      bool shortest) const {
  std::optional<Match> found;
  std::size_t node = offset(units_[0]);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t begin = units_[node] & 0x7FFFFFFFu;
    if (begin >= images_.size()) break;
    found = {at + 1,
             std::string_view(images_).substr(begin, images_.find('\0', begin) - begin)};
    if (shortest) break;
  }
  return found;
}

bool decode_base64(std::string_view text, std::string& bytes) {
  static constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  bytes.clear();
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = alphabet.find(c);
    if (digit == alphabet.npos) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return count < 6;
}

}  // namespace trireme::text
