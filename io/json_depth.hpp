// How deep a JSON text nests, known before it is parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme::io {

// The byte behind the string that begins at `at`; beyond the text where it has no end.
std::size_t after_json_string(std::string_view text, std::size_t at);

// Whether more than `depth` objects and lists are open anywhere in a text, JSON or not.
// Copies of a value, and what walks it, go that deep by recursion.
bool nests_deeper(std::string_view text, int depth);

}  // namespace trireme::io
