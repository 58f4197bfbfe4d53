// How deep a JSON text nests, known before it is parsed.
// SPDX-License-Identifier: Apache-2.0
#include "io/json_depth.hpp"

#include <cstddef>

namespace trireme::io {

bool nests_deeper(std::string_view text, int depth) {
  int open = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++open > depth) return true;
    } else if (c == '}' || c == ']') {
      --open;
    }
  }
  return false;
}

}  // namespace trireme::io
