// Section: how the rows of the deck's table are written (keys_*.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"
#include "io/deck.hpp"

namespace trireme::config {

// Stores a key's value in the settings.
using Store = void (*)(const io::Deck& deck, const io::DeckKey& key, RunConfig& config);

struct Row {
  const io::DeckKey* key = nullptr;
  Store store = nullptr;  // null: run_config.cpp computes a setting from the value
};

// A section of the deck: its rows in the order in which they were declared. A section is
// a struct whose members are its keys; each enters itself here.
class Section {
 public:
  constexpr explicit Section(std::string_view name) : name_(name) {}
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  constexpr std::string_view name() const { return name_; }
  constexpr std::span<const Row> rows() const { return {rows_.data(), count_}; }
  constexpr void add(Row row) { rows_.at(count_++) = row; }

 private:
  std::string_view name_;
  std::array<Row, 32> rows_{};
  std::size_t count_ = 0;
};

// The setting that a row fills, as the members that lead to it from the RunConfig:
// sets<&RunConfig::batch, &BatchSettings::micro>. Without any: none is filled.
template <auto... members>
struct Sets {};
template <auto... members>
inline constexpr Sets<members...> sets{};

template <class KeyOf, auto... members>
constexpr Store store_of(Sets<members...> /*setting*/) {
  if constexpr (sizeof...(members) == 0) {
    return nullptr;
  } else {
    return [](const io::Deck& deck, const io::DeckKey& key, RunConfig& config) {
      auto& setting = (config.*....*members);
      using Setting = std::remove_reference_t<decltype(setting)>;
      setting = static_cast<Setting>(deck[static_cast<const KeyOf&>(key)]);
    };
  }
}

// What numbers are allowed, ends included unless it says otherwise.
struct Limits {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false, maximum_excluded = false;
};
constexpr Limits within(double minimum, double maximum) { return {minimum, maximum}; }
constexpr Limits above(double minimum, double maximum) {
  return {minimum, maximum, true, false};
}
constexpr Limits below(double minimum, double maximum) {
  return {minimum, maximum, false, true};
}
constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr double most_steps = 1e12;

// A row of the table: its name, what the type needs, the default as TOML ("": the deck
// must give the key), and what the key is for.
template <class T, io::KeyType type>
struct TypedKey : io::Key<T> {
  TypedKey(const TypedKey&) = delete;
  TypedKey& operator=(const TypedKey&) = delete;

 protected:
  template <class Setting>
  constexpr TypedKey(Section& section, std::string_view name, std::string_view unit,
                     std::string_view fallback, Limits limits, std::string_view choices,
                     std::string_view doc, Setting setting)
      : io::Key<T>{{section.name(), name, type, unit, fallback, limits.minimum,
                    limits.maximum, choices, doc, limits.minimum_excluded,
                    limits.maximum_excluded}} {
    section.add({this, store_of<io::Key<T>>(setting)});
  }
};

using Text = std::string_view;

struct Boolean : TypedKey<bool, io::KeyType::boolean> {
  template <class Setting = Sets<>>
  constexpr Boolean(Section& section, Text name, Text fallback, Text doc,
                    Setting setting = {})
      : TypedKey(section, name, "", fallback, {}, "", doc, setting) {}
};

// A key that is one number, or a list of them.
template <class T, io::KeyType type>
struct NumberKey : TypedKey<T, type> {
  template <class Setting = Sets<>>
  constexpr NumberKey(Section& section, Text name, Text unit, Text fallback,
                      Limits limits, Text doc, Setting setting = {})
      : TypedKey<T, type>(section, name, unit, fallback, limits, "", doc, setting) {}
};
using Integer = NumberKey<std::int64_t, io::KeyType::integer>;
using Bytes = NumberKey<std::int64_t, io::KeyType::bytes>;
using Real = NumberKey<double, io::KeyType::real>;
using Seconds = NumberKey<double, io::KeyType::seconds>;
using Integers = NumberKey<std::vector<std::int64_t>, io::KeyType::integers>;
using Reals = NumberKey<std::vector<double>, io::KeyType::reals>;

// Any text where `choices` is empty.
struct String : TypedKey<std::string, io::KeyType::text> {
  template <class Setting = Sets<>>
  constexpr String(Section& section, Text name, Text fallback, Text choices, Text doc,
                   Setting setting = {})
      : TypedKey(section, name, "", fallback, {}, choices, doc, setting) {}
};

struct Strings : TypedKey<std::vector<std::string>, io::KeyType::texts> {
  template <class Setting = Sets<>>
  constexpr Strings(Section& section, Text name, Text fallback, Text doc,
                    Setting setting = {})
      : TypedKey(section, name, "", fallback, {}, "", doc, setting) {}
};

// One of a few words, each with what it stands for.
template <class T>
struct Choice : io::WordKey<T> {
  template <class Setting = Sets<>>
  constexpr Choice(Section& section, Text name, Text fallback,
                   std::initializer_list<io::Word<T>> words, Text doc,
                   Setting setting = {})
      : Choice(section, name, fallback, std::span(words.begin(), words.size()), doc,
               setting) {}
  template <class Setting = Sets<>>
  constexpr Choice(Section& section, Text name, Text fallback,
                   std::span<const io::Word<T>> words, Text doc, Setting setting = {})
      : io::WordKey<T>({section.name(), name, io::KeyType::text, "", fallback, -unbounded,
                        unbounded, "", doc},
                       words) {
    section.add({this, store_of<io::WordKey<T>>(setting)});
  }
};

}  // namespace trireme::config
