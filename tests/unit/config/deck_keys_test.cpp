// Every key of the real table, one by one, is refused where it is wrong.
// SPDX-License-Identifier: Apache-2.0
// Keys are misspelt, of a wrong type, out of range or without a choice; docs list all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using io::DeckKey;
using io::KeyType;

std::string name_of(const DeckKey& key) {
  return std::string(key.section) + "." + std::string(key.name);
}

std::string message_of(const std::vector<std::string>& overrides) {
  return error_of([&] { parse_sample(overrides); }).first;
}

bool is_known(const std::string& name) {
  return std::any_of(config::deck_table().begin(), config::deck_table().end(),
                     [&](const DeckKey& key) { return name_of(key) == name; });
}

// One letter dropped, doubled, exchanged with the next, or replaced, at every place.
std::vector<std::string> misspellings(const std::string& name) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    out.push_back(name.substr(0, i) + name.substr(i + 1));
    out.push_back(name.substr(0, i) + name[i] + name.substr(i));
    std::string changed = name;
    changed[i] = 'q';
    out.push_back(changed);
    if (i + 1 == name.size()) continue;
    changed = name;
    std::swap(changed[i], changed[i + 1]);
    out.push_back(changed);
  }
  return out;
}

std::string toml_number(const DeckKey& key, double value) {
  const bool whole = key.type == KeyType::integer || key.type == KeyType::integers ||
                     key.type == KeyType::bytes;
  const std::string text =
      whole ? std::to_string(static_cast<std::int64_t>(value)) : exact(value);
  const bool list = key.type == KeyType::integers || key.type == KeyType::reals;
  return list ? "[" + text + "]" : text;
}

bool is_number(const DeckKey& key) {
  return key.type != KeyType::boolean && key.type != KeyType::text &&
         key.type != KeyType::texts;
}

TEST(DeckKeys, TheTableIsWellFormed) {
  std::set<std::string> names;
  for (const auto& key : config::deck_table()) {
    EXPECT_TRUE(names.insert(name_of(key)).second) << name_of(key);
    EXPECT_GE(key.doc.size(), 15u) << name_of(key);
    EXPECT_EQ(key.doc.back(), '.') << name_of(key);
    EXPECT_EQ(key.doc.find('\n'), std::string_view::npos) << name_of(key);
    if (!is_number(key)) continue;
    // Bounds of integers are compared as doubles: they must be exact there.
    const bool real = key.type == KeyType::real || key.type == KeyType::reals;
    EXPECT_TRUE(real || std::isinf(key.maximum) || key.maximum < 0x1p53) << name_of(key);
    EXPECT_TRUE(std::isfinite(key.minimum)) << name_of(key);
  }
  EXPECT_GT(names.size(), 70u);
  parse_sample();  // every default passes its own checks
}

TEST(DeckKeys, MisspeltKeysNameTheRightOne) {
  for (const auto& key : config::deck_table()) {
    const std::string section(key.section);
    for (const auto& wrong : misspellings(std::string(key.name))) {
      const std::string name = section + "." + wrong;
      if (wrong.empty() || is_known(name)) continue;
      const std::string expected =
          name + ": unknown key; did you mean '" + name_of(key) + "'?";
      // A key may have two neighbours at the same distance: the other is as good.
      const std::string message = message_of({name + "=1"});
      if (message.find(expected) != std::string::npos) continue;
      const auto quote = message.find('\'');
      const std::string other =
          message.substr(quote + 1, message.rfind('\'') - quote - 1);
      EXPECT_TRUE(is_known(other) && io::edit_distance(name, other) == 1)
          << name << " gives " << message;
    }
  }
}

TEST(DeckKeys, MisspeltKeysInTheFileHaveTheirPlace) {
  for (const auto& key : config::deck_table()) {
    const std::string wrong = name_of(key) + "x";
    const std::string message =
        error_of([&] { parse_sample({}, wrong + " = 1\n"); }).first;
    expect_contains(message, "sample.toml:8:");
    expect_contains(message,
                    wrong + ": unknown key; did you mean '" + name_of(key) + "'?");
    EXPECT_EQ(count_lines(message), 1) << message;
  }
}

TEST(DeckKeys, WrongTypes) {
  for (const auto& key : config::deck_table()) {
    std::vector<std::string> wrong = {"{a = 1}", "[{a = 1}]", "[[1]]"};
    const bool takes_dates = key.type == KeyType::seconds ||
                             (key.type == KeyType::text && key.choices.empty());
    if (!takes_dates) wrong.push_back("1979-05-27");
    if (key.type != KeyType::boolean) wrong.push_back("true");
    if (key.type != KeyType::text) wrong.push_back("\"some words\"");
    if (!is_number(key)) wrong.insert(wrong.end(), {"1", "0.5"});
    if (key.type == KeyType::integer) wrong.insert(wrong.end(), {"1.5", "1.0", "[1]"});
    if (key.type == KeyType::real) wrong.push_back("[0.5]");
    if (key.type == KeyType::integers) wrong.insert(wrong.end(), {"1", "[0.5]"});
    if (key.type == KeyType::reals) wrong.insert(wrong.end(), {"1", "[\"a\"]"});
    if (key.type == KeyType::texts) wrong.insert(wrong.end(), {"[1]", "\"a\""});
    for (const auto& value : wrong) {
      const std::string message = message_of({name_of(key) + "=" + value});
      expect_contains(message, "command line: " + name_of(key) + " = ");
      expect_contains(message, "expected ");
      EXPECT_EQ(count_lines(message), 1) << message;
    }
  }
}

TEST(DeckKeys, Ranges) {
  for (const auto& key : config::deck_table()) {
    if (!is_number(key)) continue;
    const bool whole = key.type == KeyType::integer || key.type == KeyType::integers ||
                       key.type == KeyType::bytes;
    std::vector<std::string> wrong;
    const double step = whole ? 1 : 1e-3;
    wrong.push_back(
        toml_number(key, key.minimum_excluded ? key.minimum : key.minimum - step));
    if (std::isfinite(key.maximum))
      wrong.push_back(
          toml_number(key, key.maximum_excluded ? key.maximum : key.maximum * 2 + step));
    for (const auto& value : wrong) {
      const std::string message = message_of({name_of(key) + "=" + value});
      expect_contains(message, name_of(key) + " = ");
      expect_contains(message, "must be ");
    }
    if (!whole)
      for (const char* value : {"inf", "-inf", "nan"}) {
        const bool list = key.type == KeyType::reals;
        const std::string text = list ? "[" + std::string(value) + "]" : value;
        expect_contains(message_of({name_of(key) + "=" + text}), "must be finite");
      }
    // The bounds themselves are legal.
    if (!key.minimum_excluded)
      parse_sample({name_of(key) + "=" + toml_number(key, key.minimum)});
    if (std::isfinite(key.maximum) && !key.maximum_excluded)
      parse_sample({name_of(key) + "=" + toml_number(key, key.maximum)});
  }
}

TEST(DeckKeys, Choices) {
  int tried = 0;
  for (const auto& key : config::deck_table()) {
    if (key.choices.empty()) continue;
    ++tried;
    const std::string first(key.choices.substr(0, key.choices.find('|')));
    const std::string message = message_of({name_of(key) + "=" + first + "q"});
    expect_contains(message, name_of(key) + " = \"" + first + "q\": must be one of");
    expect_contains(message, "\"" + first + "\"");
    std::stringstream choices{std::string(key.choices)};
    for (std::string choice; std::getline(choices, choice, '|');)
      EXPECT_EQ(parse_sample({name_of(key) + "=" + choice}).value_text(key),
                "\"" + choice + "\"");
  }
  EXPECT_GT(tried, 10);
}

// An override equals the edited file, and the effective deck gives itself.
TEST(DeckKeys, OverridesAndFixedPoint) {
  for (const auto& key : config::deck_table()) {
    const std::string name = name_of(key);
    std::string value = "\"text of mine\"";
    if (!key.choices.empty())
      value = "\"" + std::string(key.choices.substr(key.choices.rfind('|') + 1)) + "\"";
    if (key.type == KeyType::boolean) value = "true";
    if (key.type == KeyType::texts) value = "[\"b\", \"c d\"]";
    if (is_number(key))
      value = toml_number(key, std::isfinite(key.maximum)
                                   ? key.minimum + (key.maximum - key.minimum) / 2
                                   : key.minimum + 12345);
    const std::string changed = parse_sample({name + "=" + value}).effective();
    EXPECT_EQ(io::Deck::parse(changed, "again", {}, config::deck_table()).effective(),
              changed);
    std::string edited;
    std::stringstream lines{sample_deck};
    for (std::string line; std::getline(lines, line);)
      if (line.rfind(name + " ", 0) != 0) edited += line + "\n";
    edited += name + " = " + value + "\n";
    EXPECT_EQ(io::Deck::parse(edited, "edited", {}, config::deck_table()).effective(),
              changed)
        << name;
  }
}

// With TRIREME_UPDATE=1 in the environment the page is written instead.
TEST(DeckKeys, ReferencePageIsCurrent) {
  const std::string path = std::string(TRIREME_SOURCE_DIR) + "/docs/deck.md";
  const std::string expected = io::describe_keys_markdown(config::deck_table());
  if (std::getenv("TRIREME_UPDATE")) std::ofstream(path) << expected;
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  EXPECT_EQ(content.str(), expected)
      << "docs/deck.md is out of date: run this test with TRIREME_UPDATE=1";
}

}  // namespace
}  // namespace trireme::test
