// The words of a template: text as it stands, and what lies between {{ }} and {% %}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data::jinja {

enum class WordKind : std::uint8_t {
  data,  // text as it stands
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  text,  // of a string, its escapes replaced
  integer,
  real,
  mark,  // an operator or a bracket
  end
};

struct Word {
  WordKind kind = WordKind::end;
  std::string text;
  int line = 0;  // from 1
};

// With trim_blocks and lstrip_blocks, as transformers sets them. The last word is of kind
// end. Throws Error(bad_content) that begins with the number of the line, "12: ...".
std::vector<Word> cut_template(std::string_view source);

// White space of Python's strings.
bool is_python_space(char32_t code);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace trireme::data::jinja
