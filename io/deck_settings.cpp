// The keys and values of a deck's text, in order.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_settings.hpp"

namespace trireme::io {
namespace {

void add(const TomlValue& table, const std::string& prefix,
         std::vector<DeckSetting>& settings) {
  for (const auto& member : table.members) {
    const std::string key = prefix + member.name;
    if (member.value.kind == TomlValue::Kind::table)
      add(member.value, key + ".", settings);
    else
      settings.push_back({key, member.value});
  }
}

}  // namespace

std::string DeckSetting::text(std::size_t limit) const {
  return value.kind == TomlValue::Kind::text ? shorten(value.text, limit)
                                             : show(value, limit);
}

std::vector<DeckSetting> deck_settings(const std::string& deck) {
  std::vector<DeckSetting> settings;
  try {
    add(parse_toml(deck), "", settings);
  } catch (const TomlError&) {
    settings.clear();
  }
  return settings;
}

}  // namespace trireme::io
