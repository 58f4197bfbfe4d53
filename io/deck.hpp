// Deck: a TOML input file checked against a table of keys, with every problem reported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "io/deck_key.hpp"

namespace trireme::io {

struct DeckFile;

// One problem found in a deck. Printed as "file:line:column: key = value: text"; `where`
// is "command line" for an override; key and value may be empty.
struct DeckProblem {
  std::string where, key, value, text;
  std::string message() const;
};

// Throws Error(status) with one line a problem, the first hundred of them.
[[noreturn]] void fail_with(Status status, std::span<const DeckProblem> problems);

// A value in force, with where it comes from.
struct DeckValue {
  KeyType type{};
  bool flag = false;
  bool given = false;      // by the deck or an override
  bool sound = true;       // false: what was given is wrong; this is the default
  std::int64_t whole = 0;  // integer, bytes
  double number = 0;       // real, seconds
  std::string text;
  std::vector<std::int64_t> wholes;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  std::string where = "default";
  mutable bool read = false;
};

// Key values in force. Every key of the table has a value.
class Deck {
 public:
  // Reads the file (at most 1 MiB) and those that it includes, applies the overrides
  // "section.key=value" in order and checks everything: syntax, unknown keys and sections
  // (naming the nearest known one by Damerau-Levenshtein distance), types, ranges,
  // choices, required keys. All problems are collected before any is thrown. Throws
  // Error(missing_input) when the file cannot be read, Error(command_line) when only
  // overrides are wrong, else Error(bad_content); the message has one line a problem.
  static Deck load(const std::string& path, std::span<const std::string> overrides,
                   std::span<const DeckKey> table);
  // The same from text, which includes no files; `name` stands for the file in messages.
  static Deck parse(const std::string& text, const std::string& name,
                    std::span<const std::string> overrides,
                    std::span<const DeckKey> table);

  // As load() and parse(), but wrong content is kept in problems() instead of thrown, for
  // callers that have problems of their own to add: a key that is wrong or missing has
  // its default (or zero) and is not sound().
  // presets: more overrides, which say that they come from `presets_from`.
  static Deck load_leniently(const std::string& path,
                             std::span<const std::string> overrides,
                             std::span<const DeckKey> table,
                             std::span<const std::string> presets = {},
                             const std::string& presets_from = "");
  static Deck parse_leniently(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides,
                              std::span<const DeckKey> table,
                              std::span<const std::string> presets = {},
                              const std::string& presets_from = "");
  // What a caller found wrong with it besides.
  void add_problems(const std::vector<DeckProblem>& problems) {
    problems_.insert(problems_.end(), problems.begin(), problems.end());
  }
  const std::vector<DeckProblem>& problems() const { return problems_; }
  bool sound(std::string_view key) const;
  bool sound(const DeckKey& key) const { return sound(full_name(key)); }
  // Throws what load() throws if there are problems.
  void require_sound() const;

  // The value of a key of the table, as the type of the object; of a word, what it stands
  // for. Bytes and seconds are plain numbers. Throws Error(internal) for a key that is
  // not in the table or is of another type there.
  template <class T>
  T operator[](const Key<T>& key) const;
  template <class T>
  T operator[](const WordKey<T>& key) const {
    return key.meaning(word(key));
  }

  // Whether the deck or an override gave the key.
  bool given(std::string_view key) const;
  bool given(const DeckKey& key) const { return given(full_name(key)); }
  // Whether the value is the default, also where it was given.
  bool is_default(const DeckKey& key) const;
  // "file:line:column" of the value, "command line", or "default".
  std::string where(std::string_view key) const;
  std::string where(const DeckKey& key) const { return where(full_name(key)); }
  // The value as TOML.
  std::string value_text(std::string_view key) const;
  std::string value_text(const DeckKey& key) const { return value_text(full_name(key)); }

  // The whole table with the values in force, as a TOML deck with the doc of each key as
  // comment. Parsed again it gives itself, to the byte.
  std::string effective() const;
  // A deck of the keys that are given, with the values in force.
  std::string given_text() const;
  // Keys of the table that were never read by a key object: a test holds this empty.
  std::vector<std::string> unread() const;

 private:
  static Deck read_leniently(std::span<const DeckFile> files, const std::string& name,
                             std::span<const std::string> overrides,
                             std::span<const DeckKey> table,
                             std::span<const std::string> presets,
                             const std::string& presets_from);
  const DeckValue& value(std::string_view key) const;
  const DeckValue& read(const DeckKey& key, KeyType a, KeyType b) const;
  const std::string& word(const DeckKey& key) const;

  std::span<const DeckKey> table_;
  std::map<std::string, DeckValue, std::less<>> values_;
  std::vector<DeckProblem> problems_;
};

template <>
bool Deck::operator[](const Key<bool>& key) const;
template <>
std::int64_t Deck::operator[](const Key<std::int64_t>& key) const;
template <>
double Deck::operator[](const Key<double>& key) const;
template <>
std::string Deck::operator[](const Key<std::string>& key) const;
template <>
std::vector<std::int64_t> Deck::operator[](
    const Key<std::vector<std::int64_t>>& key) const;
template <>
std::vector<double> Deck::operator[](const Key<std::vector<double>>& key) const;
template <>
std::vector<std::string> Deck::operator[](const Key<std::vector<std::string>>& key) const;

// How a deck includes others, in lines for a terminal.
std::string describe_include();
// Text of `trireme help deck`: each section and key with type, unit, default, range and
// doc.
std::string describe_keys(std::span<const DeckKey> table);
// The same as a Markdown page: docs/deck.md is this text, which a test checks.
std::string describe_keys_markdown(std::span<const DeckKey> table);

// Damerau-Levenshtein (optimal string alignment) distance.
int edit_distance(std::string_view a, std::string_view b);
// "; did you mean FOLDER/NAME.toml?" of the deck beside `path` whose name is nearest to
// it; empty where none is near.
std::string nearest_deck_text(const std::string& path);

}  // namespace trireme::io
