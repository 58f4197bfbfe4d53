// The tree of a template: its statements and expressions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/jinja/value.hpp"

namespace trireme::data::jinja {

enum class Op : std::uint8_t {
  constant,    // value
  name,        // text
  list,        // parts
  tuple,       // parts
  dict,        // parts: key, value, key, value ...
  attribute,   // of parts[0], named text
  item,        // of parts[0], at parts[1]
  slice,       // of parts[0], from parts[1] to parts[2] by parts[3], each may be null
  call,        // of parts[0]; arguments follow, the last ones named by `words`
  filter,      // text, of parts[0]; arguments as of a call
  test,        // text, of parts[0]; arguments as of a call
  negation,    // not
  negative,    // -
  positive,    // +
  arithmetic,  // text, of parts[0] and parts[1]
  and_,
  or_,
  comparison,   // parts[0] words[0] parts[1] words[1] parts[2] ...
  conditional,  // parts[1] if parts[0] else parts[2], which may be null
};

struct Node {
  Op op = Op::constant;
  int line = 0, depth = 1;
  std::string text;
  Value value;
  std::vector<std::unique_ptr<Node>> parts;
  std::vector<std::string> words;
};
using NodePtr = std::unique_ptr<Node>;

struct Statement;
using Block = std::vector<Statement>;

enum class Do : std::uint8_t {
  data,    // text
  print,   // parts[0]
  branch,  // blocks[i] under parts[i]; one block more: else
  loop,    // names of parts[0], if parts[1], which may be null: blocks[0]; else: [1]
  assign,  // parts[0] to names, or to the attribute `text` of names[0]
  assign_block,  // what blocks[0] writes, through the filters parts[0], which may be null
  macro,         // text(names), the last of them with the defaults parts: blocks[0]
  with,          // names = parts: blocks[0]
  generation,    // blocks[0] is what the assistant wrote
  filter,        // what blocks[0] writes, through the filters parts[0]
  caller,        // calls parts[0], whose caller() is the macro blocks[1][0]
  stop,          // break
  go_on,         // continue
};

struct Statement {
  Do kind = Do::data;
  int line = 0;
  std::string text;
  std::vector<std::string> names;
  std::vector<NodePtr> parts;
  std::vector<Block> blocks;
  bool flag = false;  // of a macro: it asks for its caller; of a loop: it is recursive
};

// What the filters of a block are applied to, by this name.
inline constexpr std::string_view block_name = " block";

// Throws Error(bad_content) for what is wrong or not supported; its message begins with
// the number of the line, "12: ...".
Block parse_template(std::string_view source);

}  // namespace trireme::data::jinja
