// Deck: values in force and how they are written.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck.hpp"

#include <algorithm>

#include "io/deck_value.hpp"

namespace trireme::io {

namespace {

constexpr std::size_t most_problems = 100;

}  // namespace

std::string DeckProblem::message() const {
  std::string out = where;
  if (!key.empty()) out += (out.empty() ? "" : ": ") + key;
  if (!value.empty()) out += " = " + value;
  return out.empty() ? text : out + ": " + text;
}

void fail_with(Status status, std::span<const DeckProblem> problems) {
  std::string out;
  for (const auto& problem :
       problems.subspan(0, std::min(problems.size(), most_problems)))
    out += (out.empty() ? "" : "\n") + problem.message();
  if (problems.size() > most_problems)
    out += format("\nand {} more problems", problems.size() - most_problems);
  throw Error(status, out);
}

void Deck::require_sound() const {
  if (problems_.empty()) return;
  const bool all_overrides =
      std::all_of(problems_.begin(), problems_.end(),
                  [](const DeckProblem& p) { return p.where == "command line"; });
  fail_with(all_overrides ? Status::command_line : Status::bad_content, problems_);
}

Deck Deck::load(const std::string& path, std::span<const std::string> overrides,
                std::span<const DeckKey> table) {
  Deck deck = load_leniently(path, overrides, table);
  deck.require_sound();
  return deck;
}

Deck Deck::parse(const std::string& text, const std::string& name,
                 std::span<const std::string> overrides, std::span<const DeckKey> table) {
  Deck deck = parse_leniently(text, name, overrides, table);
  deck.require_sound();
  return deck;
}

const DeckValue& Deck::value(std::string_view key) const {
  const auto found = values_.find(key);
  require(found != values_.end(), "'{}' is not a deck key", key);
  return found->second;
}

const DeckValue& Deck::read(const DeckKey& key, KeyType a, KeyType b) const {
  const std::string name = full_name(key);
  const DeckValue& found = value(name);
  require(found.type == a || found.type == b,
          "deck key '{}' is a {} and was read as a {}", name, type_name(found.type),
          type_name(a));
  found.read = true;
  return found;
}

const std::string& Deck::word(const DeckKey& key) const {
  return read(key, KeyType::text, KeyType::text).text;
}

template <>
bool Deck::operator[](const Key<bool>& key) const {
  return read(key, KeyType::boolean, KeyType::boolean).flag;
}

template <>
std::int64_t Deck::operator[](const Key<std::int64_t>& key) const {
  return read(key, KeyType::integer, KeyType::bytes).whole;
}

template <>
double Deck::operator[](const Key<double>& key) const {
  return read(key, KeyType::real, KeyType::seconds).number;
}

template <>
std::string Deck::operator[](const Key<std::string>& key) const {
  return word(key);
}

template <>
std::vector<std::int64_t> Deck::operator[](
    const Key<std::vector<std::int64_t>>& key) const {
  return read(key, KeyType::integers, KeyType::integers).wholes;
}

template <>
std::vector<double> Deck::operator[](const Key<std::vector<double>>& key) const {
  return read(key, KeyType::reals, KeyType::reals).numbers;
}

template <>
std::vector<std::string> Deck::operator[](
    const Key<std::vector<std::string>>& key) const {
  return read(key, KeyType::texts, KeyType::texts).texts;
}

bool Deck::given(std::string_view key) const { return value(key).given; }

bool Deck::sound(std::string_view key) const { return value(key).sound; }

std::string Deck::where(std::string_view key) const { return value(key).where; }

std::string Deck::value_text(std::string_view key) const {
  return value_toml(value(key));
}

bool Deck::is_default(const DeckKey& key) const {
  value(full_name(key)).read = true;
  DeckValue fallback;
  return !key.fallback.empty() &&
         read_value(key, parse_toml_value(std::string(key.fallback)), fallback).empty() &&
         value_toml(fallback) == value_text(key);
}

std::string Deck::effective() const {
  constexpr std::size_t comment_column = 32;
  std::string out = "# Trireme deck: every key with the value in force.\n";
  std::string_view section;
  for (const auto& key : table_) {
    if (key.section != section) {
      section = key.section;
      out += "\n[" + std::string(section) + "]\n";
    }
    std::string line = std::string(key.name) + " = " + value_text(full_name(key));
    if (line.size() < comment_column) line.resize(comment_column, ' ');
    out += line + "  # " + std::string(key.doc) + "\n";
  }
  return out;
}

std::string Deck::given_text() const {
  std::string out;
  std::string_view section;
  for (const auto& key : table_) {
    const std::string name = full_name(key);
    if (!given(name)) continue;
    if (key.section != section) {
      section = key.section;
      out += (out.empty() ? "[" : "\n[") + std::string(section) + "]\n";
    }
    out += std::string(key.name) + " = " + value_text(name) + "\n";
  }
  return out;
}

std::vector<std::string> Deck::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : values_)
    if (!value.read) out.push_back(key);
  return out;
}

}  // namespace trireme::io
