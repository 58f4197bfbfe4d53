// Deck values: from TOML to a typed, checked value, and back to TOML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "io/deck.hpp"
#include "io/deck_toml.hpp"

namespace trireme::io {

// Reads `raw` as the key's type and checks range and choices. Returns what is wrong, ""
// if nothing; `out` is complete then, except for `given` and `where`.
std::string read_value(const DeckKey& key, const TomlValue& raw, DeckValue& out);

// The value as TOML: sizes and times as plain numbers.
std::string value_toml(const DeckValue& value);

// "an integer, 1 or more": what a key may be.
std::string expectation(const DeckKey& key);
// "1 or more", "between 0 and 1", "" when any number will do.
std::string range_text(const DeckKey& key);
// "integer", "list of texts".
std::string type_name(KeyType type);
// The parts of "a|b|c".
std::vector<std::string> split_choices(std::string_view choices);

// The known key, with its section, that is nearest to a misspelt one, which may lack its
// section; "": none is near. The same of sections.
std::string nearest_key(const std::string& name, std::span<const DeckKey> table);
std::string nearest_section(const std::string& name, std::span<const DeckKey> table);
// The names nearest to a misspelt one, as a sentence for a message: "unknown key; did you
// mean 'model.heads'?". `name` is the whole dotted name.
std::string unknown_key_text(const std::string& name, std::span<const DeckKey> table);
std::string unknown_section_text(const std::string& name, std::span<const DeckKey> table);

// Sections in the order of the table.
std::vector<std::string> section_names(std::span<const DeckKey> table);

}  // namespace trireme::io
