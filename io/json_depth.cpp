// How deep a JSON text nests, known before it is parsed.
// SPDX-License-Identifier: Apache-2.0
#include "io/json_depth.hpp"

namespace trireme::io {

std::size_t after_json_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return at + 1;
}

bool nests_deeper(std::string_view text, int depth) {
  int open = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = after_json_string(text, at);
      continue;
    }
    if (c == '{' || c == '[') {
      if (++open > depth) return true;
    } else if (c == '}' || c == ']') {
      --open;
    }
    ++at;
  }
  return false;
}

}  // namespace trireme::io
