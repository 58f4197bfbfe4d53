// CharacterMap: SentencePiece's table of texts that become others, and base64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

// A double-array trie of keys, and what each becomes. (S. Yata, darts-clone.) Any bytes
// are safe to look up in, for a file may hold any.
class CharacterMap {
 public:
  // Of SentencePiece's bytes: u32 size of the trie, the trie, texts that end with a zero
  // byte. Nothing, and why, where they are none.
  static std::optional<CharacterMap> parse(std::string_view bytes, std::string& why);

  struct Match {
    std::size_t bytes;       // of the text that become the image
    std::string_view image;  // lies in the map
  };
  // The shortest, or longest, beginning of `text` that the trie knows.
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Match> find(std::string_view text, bool shortest) const;

  std::vector<std::uint32_t> units_;
  std::string images_;
};

// The bytes that base64 text stands for; false when it is none.
bool decode_base64(std::string_view text, std::string& bytes);

}  // namespace trireme::text
