// The files of a deck: the deck itself and those that it includes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/deck_key.hpp"
#include "io/deck_toml.hpp"

namespace trireme::io {

// One file of a deck, without its line `include`.
struct DeckFile {
  std::string name;  // as messages give it
  TomlValue root;
  std::vector<TomlError> errors;  // no TOML, or something wrong with `include`
};

// The text of a deck. Throws Error(missing_input), with the nearest deck's name, where
// there is no such file, and Error(bad_content) where it is larger than a deck may be.
std::string read_deck_text(const std::string& path);

// The deck `text`, of the file `name`, behind the files that it includes: of a key that
// several give the last counts. `include = "FILE"` or a list of files stands at the top
// of a deck; names are relative to the folder of the deck that has the line. An included
// deck may include others, eight deep; all included ones have at most 2 MiB.
std::vector<DeckFile> read_deck_files(const std::string& text, const std::string& name);
// The same of a text that may not include any, such as a checkpoint's deck.
DeckFile read_deck_file(const std::string& text, const std::string& name);

// The text of a deck as one file: what it and the files that it includes give, in the
// table's order; its own text where it includes none. Of a deck that is sound with some
// overrides. Throws as Deck::load_leniently().
std::string self_contained_deck(const std::string& path, std::span<const DeckKey> table);

}  // namespace trireme::io
