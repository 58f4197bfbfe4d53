// Pages made from the overview of commands and the table of deck keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/deck.hpp"

namespace trireme::app {

// A command as the overview shows it.
struct CommandText {
  std::string name;                  // "train"
  std::vector<std::string> options;  // "--check", in the order of the text
};

// Commands of an overview: lines that begin with two blanks and a name; options are the
// words "--name" of those lines and the indented ones below.
std::vector<CommandText> commands_of(std::string_view overview);

// Completion of commands, their options, files, and of a deck's sections, keys and the
// words that a key takes, for three shells.
std::string bash_completion(std::string_view overview,
                            std::span<const io::DeckKey> table);
std::string zsh_completion(std::string_view overview, std::span<const io::DeckKey> table);
std::string fish_completion(std::string_view overview,
                            std::span<const io::DeckKey> table);

// trireme(1), in roff.
std::string man_page(std::string_view overview, std::span<const io::DeckKey> table,
                     std::string_view version);

// "schema", "completion", "completion-zsh", "completion-fish" or "man" of this program;
// nothing for another name.
std::optional<std::string> help_page(std::string_view name);

}  // namespace trireme::app
