// SentencePiece's table of characters as tokenizer.json's readers apply it.
// SPDX-License-Identifier: Apache-2.0
#include "text/precompiled.hpp"

#include "text/character_map.hpp"
#include "text/clusters.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(CharacterMap map) : map_(std::move(map)) {}

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
  // What the shortest beginning of the key that the map knows becomes: so does the whole
  // key, with what follows that beginning in it.
  std::optional<std::string_view> image_of(std::string_view key) const {
    const auto match = map_.shortest(key);
    if (!match) return {};
    return match->image;
  }

  CharacterMap map_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const ConfigNode& node) {
  std::string bytes;
  if (!decode_base64(node.text(), bytes)) node.fail("is no base64 text");
  if (bytes.empty()) return nullptr;  // the identity
  std::string why;
  auto map = CharacterMap::parse(bytes, why);
  if (!map) node.fail(why);
  return std::make_unique<Precompiled>(std::move(*map));
}

}  // namespace trireme::text
