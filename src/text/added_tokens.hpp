// Added tokens: texts that are found before all else, and are one token each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/piece_trie.hpp"
#include "text/stages.hpp"

namespace trireme::text {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  std::string decoded{};     // what decoders get: the content, normalized if `normalized`
  bool special = false;      // left out of decoded text on request
  bool normalized = false;   // found in normalized text
  bool single_word = false;  // not inside a word
  bool lstrip = false, rstrip = false;  // takes white space beside it
};

// A part of a text: an added token's, or (id -1) what stands between two.
struct AddedPart {
  std::int32_t id;
  Range range;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // "added_tokens" of tokenizer.json. Their ids follow from the model's vocabulary and
  // their order; throws Error(bad_content) where the file says another.
  AddedTokens(const ConfigNode& node, const Model& model, const Normalizer* normalizer);

  // A token with the id that a file of another kind gives it: `is_found` in raw text, or
  // one that no text becomes. finish() after the last one. The reason, where it cannot
  // be.
  std::optional<std::string> add(AddedToken token, bool is_found);
  void finish() { raw_.sort(); }

  // Cuts a text at the tokens that are found in raw, or in normalized, text.
  std::vector<AddedPart> find_raw(std::string_view text) const { return raw_.find(text); }
  std::vector<AddedPart> find_normalized(std::string_view text) const {
    return normalized_.find(text);
  }
  bool any_normalized() const { return !normalized_.empty(); }

  const std::vector<AddedToken>& all() const { return all_; }
  const AddedToken* by_id(std::int32_t id) const;
  const AddedToken* by_content(std::string_view content) const;

 private:
  // The leftmost, then the longest, of some texts in another text.
  class Finder {
   public:
    void add(std::string pattern, const AddedToken& token) {
      patterns_.push_back({std::move(pattern), token});
    }
    void sort();  // when all are there; of equal ones the first stays
    std::vector<AddedPart> find(std::string_view text) const;
    bool empty() const { return patterns_.empty(); }

   private:
    struct Pattern {
      std::string text;
      AddedToken token;
    };
    // The longest that `text` begins with, or nullptr.
    const Pattern* at(std::string_view text) const;
    std::vector<Pattern> patterns_;     // by text, once sort() was called
    PieceTrie trie_{{}};                // of their places
    std::array<bool, 256> is_first_{};  // byte of one of them
  };

  std::vector<AddedToken> all_;
  std::unordered_map<std::int32_t, std::size_t> ids_;
  std::unordered_map<std::string, std::size_t> contents_;
  Finder raw_, normalized_;
};

}  // namespace trireme::text
