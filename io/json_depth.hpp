// How deep a JSON text nests, known before it is parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace trireme::io {

// Whether more than `depth` objects and lists are open anywhere in a text, JSON or not.
// Copies of a value, and what walks it, go that deep by recursion.
bool nests_deeper(std::string_view text, int depth);

}  // namespace trireme::io
