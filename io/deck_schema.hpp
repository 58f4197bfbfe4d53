// The table of deck keys as a JSON Schema, for editors and tools.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "io/deck.hpp"

namespace trireme::io {

// JSON Schema (draft 2020-12) of a deck. It knows keys, types, ranges and choices; rules
// between keys are the program's (`trireme train --check`).
std::string deck_schema(std::span<const DeckKey> table);

// "#:schema PATH" and a line's end: the first line of a deck for editors, which then
// complete keys and check values; PATH is that of the schema installed beside this
// program (../share/trireme/deck.schema.json). "" where there is none.
std::string schema_line();

}  // namespace trireme::io
