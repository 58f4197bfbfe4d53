// SentencePiece's table of characters: a double-array trie and what its keys become.
// SPDX-License-Identifier: Apache-2.0
#include "text/precompiled.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "text/clusters.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// (S. Yata, darts-clone: the units of a double-array trie.)
class Precompiled final : public Normalizer {
 public:
  Precompiled(std::vector<std::uint32_t> units, std::string images)
      : units_(std::move(units)), images_(std::move(images)) {}

  // By grapheme clusters of less than 6 bytes where the trie knows one, else by
  // characters.
  void apply(AlignedText& text) const override {
    Rewriter out(text);
    const std::string_view all = text.text;
    bool changed = false;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = cluster_end(all, begin);
      if (end - begin < 6) {
        if (const auto image = image_of(all.substr(begin, end - begin))) {
          out.put(*image, begin, end);
          changed = true;
          begin = end;
          continue;
        }
      }
      while (begin < end) {
        const std::size_t bytes = length_at(static_cast<unsigned char>(all[begin]));
        if (const auto image = image_of(all.substr(begin, bytes))) {
          out.put(*image, begin, begin + bytes);
          changed = true;
        } else {
          out.keep(begin, begin + bytes);
        }
        begin += bytes;
      }
    }
    if (changed) text = out.take();
  }

 private:
  static bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFu; }
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
  }

  // What the shortest beginning of the key that the trie knows becomes: so does the whole
  // key, with what follows that beginning in it.
  std::optional<std::string_view> image_of(std::string_view key) const {
    std::size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= units_.size() || label(units_[node]) != byte) break;
      const std::uint32_t unit = units_[node];
      node ^= offset(unit);
      if (!has_leaf(unit)) continue;
      if (node >= units_.size()) break;
      const std::size_t begin = units_[node] & 0x7FFFFFFFu;
      if (begin >= images_.size()) break;
      return std::string_view(images_).substr(begin, images_.find('\0', begin) - begin);
    }
    return {};
  }

  std::vector<std::uint32_t> units_;
  std::string images_;
};

}  // namespace

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

std::unique_ptr<Normalizer> make_precompiled(const ConfigNode& node) {
  std::string bytes;
  if (!decode_base64(node.text(), bytes)) node.fail("is no base64 text");
  if (bytes.empty()) return nullptr;  // the identity
  std::uint32_t size = 0;
  if (bytes.size() < 4) node.fail("is too short for a table of characters");
  std::memcpy(&size, bytes.data(), 4);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4)
    node.fail("does not hold the trie that it announces");
  std::vector<std::uint32_t> units(size / 4);
  std::memcpy(units.data(), bytes.data() + 4, size);
  return std::make_unique<Precompiled>(std::move(units), bytes.substr(4 + size));
}

}  // namespace trireme::text
