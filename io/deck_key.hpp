// Keys of a deck: the rows of its table, and objects by which values are read typed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace trireme::io {

// How a value is written in the deck. bytes: an integer, or "4 GiB". seconds: a number,
// or "30 min". Lists are TOML arrays.
enum class KeyType : std::uint8_t {
  boolean,
  integer,
  real,
  text,
  bytes,
  seconds,
  integers,
  reals,
  texts
};

// One row of the table: the only source for parsing, validation, help and documentation.
struct DeckKey {
  std::string_view section;  // "model", "optimizer.schedule"
  std::string_view name;
  KeyType type;
  std::string_view unit;          // "" if none: "steps", "sequences", "bytes", "seconds"
  std::string_view fallback;      // the default as TOML text; "" = the deck must give it
  double minimum, maximum;        // numbers (and list elements): inclusive range
  std::string_view choices;       // text: "a|b|c", or "" for any
  std::string_view doc;           // one line
  bool minimum_excluded = false;  // the range is open below: (minimum, maximum]
  bool maximum_excluded = false;  // the range is open above: [minimum, maximum)
};

// "model.heads"
std::string full_name(const DeckKey& key);

// A row whose value is read as a T (Deck::operator[]): bool, std::int64_t, double,
// std::string, or a std::vector of one of the last three. Its type must agree.
template <class T>
struct Key : DeckKey {
  using Value = T;
};

// A word of the deck, and what it stands for.
template <class T>
struct Word {
  std::string_view text;
  T meaning;
};

// A text row that takes a few words; each is bound here to what it stands for, so that
// no word is allowed and then forgotten where the deck is read.
template <class T>
class WordKey : public DeckKey {
 public:
  using Value = T;

  constexpr WordKey(const DeckKey& row, std::initializer_list<Word<T>> words)
      : WordKey(row, std::span(words.begin(), words.size())) {}
  constexpr WordKey(const DeckKey& row, std::span<const Word<T>> words) : DeckKey(row) {
    for (const Word<T>& word : words) {
      if (count_ > 0) letters_.at(length_++) = '|';
      for (const char letter : word.text) letters_.at(length_++) = letter;
      words_.at(count_++) = word;
    }
    choices = {letters_.data(), length_};
  }
  // Copies and moves would leave `choices` behind.
  WordKey(const WordKey&) = delete;
  WordKey& operator=(const WordKey&) = delete;

  // What a word stands for. Throws Error(internal) for one that is not in the row.
  constexpr T meaning(std::string_view text) const {
    if (const T* found = find(text)) return *found;
    fail(Status::internal, "'{}' is no word of the deck key '{}'", text,
         full_name(*this));
  }
  // The same, or null for one that is not in the row.
  constexpr const T* find(std::string_view text) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (words_[i].text == text) return &words_[i].meaning;
    return nullptr;
  }
  constexpr std::span<const Word<T>> words() const { return {words_.data(), count_}; }
  // The first word that stands for a value. Throws Error(internal) where none does.
  constexpr std::string_view word_for(const T& value) const {
    for (const Word<T>& word : words())
      if (word.meaning == value) return word.text;
    fail(Status::internal, "'{}' has no word for a value", full_name(*this));
  }

 private:
  std::array<Word<T>, 24> words_{};
  std::size_t count_ = 0;
  std::array<char, 256> letters_{};
  std::size_t length_ = 0;
};

}  // namespace trireme::io
