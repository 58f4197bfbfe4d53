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

const DeckValue& Deck::read(std::string_view key, KeyType a, KeyType b) const {
  const DeckValue& found = value(key);
  require(found.type == a || found.type == b,
          "deck key '{}' is a {} and was read as a {}", key, type_name(found.type),
          type_name(a));
  found.read = true;
  return found;
}

bool Deck::boolean(std::string_view key) const {
  return read(key, KeyType::boolean, KeyType::boolean).flag;
}

std::int64_t Deck::integer(std::string_view key) const {
  return read(key, KeyType::integer, KeyType::bytes).whole;
}

double Deck::real(std::string_view key) const {
  return read(key, KeyType::real, KeyType::seconds).number;
}

const std::string& Deck::text(std::string_view key) const {
  return read(key, KeyType::text, KeyType::text).text;
}

std::vector<std::int64_t> Deck::integers(std::string_view key) const {
  return read(key, KeyType::integers, KeyType::integers).wholes;
}

std::vector<double> Deck::reals(std::string_view key) const {
  return read(key, KeyType::reals, KeyType::reals).numbers;
}

std::vector<std::string> Deck::texts(std::string_view key) const {
  return read(key, KeyType::texts, KeyType::texts).texts;
}

bool Deck::given(std::string_view key) const { return value(key).given; }

bool Deck::sound(std::string_view key) const { return value(key).sound; }

std::string Deck::where(std::string_view key) const { return value(key).where; }

std::string Deck::value_text(std::string_view key) const {
  return value_toml(value(key));
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

std::vector<std::string> Deck::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : values_)
    if (!value.read) out.push_back(key);
  return out;
}

}  // namespace trireme::io
