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
  // Reads the file (at most 16 MiB), applies the overrides "section.key=value" in order
  // and checks everything: syntax, unknown keys and sections (naming the nearest known
  // one by Damerau-Levenshtein distance), types, ranges, choices, required keys. All
  // problems are collected before any is thrown. Throws Error(missing_input) when the
  // file cannot be read, Error(command_line) when only overrides are wrong, else
  // Error(bad_content); the message has one line a problem.
  static Deck load(const std::string& path, std::span<const std::string> overrides,
                   std::span<const DeckKey> table);
  // The same from text; `name` stands for the file in messages.
  static Deck parse(const std::string& text, const std::string& name,
                    std::span<const std::string> overrides,
                    std::span<const DeckKey> table);

  // As load() and parse(), but wrong content is kept in problems() instead of thrown, for
  // callers that have problems of their own to add: a key that is wrong or missing has
  // its default (or zero) and is not sound().
  static Deck load_leniently(const std::string& path,
                             std::span<const std::string> overrides,
                             std::span<const DeckKey> table);
  static Deck parse_leniently(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides,
                              std::span<const DeckKey> table);
  const std::vector<DeckProblem>& problems() const { return problems_; }
  bool sound(std::string_view key) const;
  // Throws what load() throws if there are problems.
  void require_sound() const;

  // Values of "section.name". Throws Error(internal) for a key that is not in the table
  // or is read as another type. Bytes and seconds are plain numbers here.
  bool boolean(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;  // integer, bytes
  double real(std::string_view key) const;           // real, seconds
  const std::string& text(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;

  // Whether the deck or an override gave the key.
  bool given(std::string_view key) const;
  // "file:line:column" of the value, "command line", or "default".
  std::string where(std::string_view key) const;
  // The value as TOML.
  std::string value_text(std::string_view key) const;

  // The whole table with the values in force, as a TOML deck with the doc of each key as
  // comment. Parsed again it gives itself, to the byte.
  std::string effective() const;
  // Keys of the table that were never read by a typed getter: a test holds this empty.
  std::vector<std::string> unread() const;

 private:
  const DeckValue& value(std::string_view key) const;
  const DeckValue& read(std::string_view key, KeyType a, KeyType b) const;

  std::span<const DeckKey> table_;
  std::map<std::string, DeckValue, std::less<>> values_;
  std::vector<DeckProblem> problems_;
};

// Text of `trireme help deck`: each section and key with type, unit, default, range and
// doc.
std::string describe_keys(std::span<const DeckKey> table);
// The same as a Markdown page: docs/deck.md is this text, which a test checks.
std::string describe_keys_markdown(std::span<const DeckKey> table);

// Damerau-Levenshtein (optimal string alignment) distance.
int edit_distance(std::string_view a, std::string_view b);

}  // namespace trireme::io
