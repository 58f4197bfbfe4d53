// The keys and values of a deck's text, in order, for who only shows or compares them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "io/deck_toml.hpp"

namespace trireme::io {

struct DeckSetting {
  std::string key;  // "optimizer.learning_rate"
  TomlValue value;

  // A text without its quotes, anything else as TOML, cut to about `limit` characters.
  std::string text(std::size_t limit = 200) const;
};

// Of any TOML text; no table of keys is asked. Nothing for a text that is not TOML.
std::vector<DeckSetting> deck_settings(const std::string& deck);

}  // namespace trireme::io
