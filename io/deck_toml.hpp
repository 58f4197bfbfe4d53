// TOML text as a plain tree with positions, so that only one file sees the TOML library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace trireme::io {

struct TomlValue {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    real,
    text,
    date,
    list,
    table
  } kind = Kind::table;
  bool flag = false;
  std::int64_t whole = 0;
  double number = 0;
  std::string text;  // text; a date as it prints
  std::vector<TomlValue> items;
  struct Member;
  std::vector<Member> members;  // in the order of the file
  int line = 0, column = 0;     // where it begins, from 1
};

struct TomlValue::Member {
  std::string name;
  int line = 0, column = 0;  // of the name
  TomlValue value;
};

// Text that is not TOML. line 0: the problem has no place.
struct TomlError : std::runtime_error {
  TomlError(const std::string& text, int at_line, int at_column)
      : std::runtime_error(text), line(at_line), column(at_column) {}
  int line, column;
};

// The root table of a document. Throws TomlError.
TomlValue parse_toml(const std::string& text);
// One value, such as the right side of an override. Throws TomlError.
TomlValue parse_toml_value(const std::string& text);

// `text` as a TOML string.
std::string quote_toml(const std::string& text);
// `name` as a key: bare where TOML allows it, else quoted.
std::string quote_key(const std::string& name);
// A number as text that reads back as the same double: without exponent unless very large
// or small.
std::string plain_number(double value);
// The same as a TOML float: with a point.
std::string toml_real(double value);
// The value as TOML on one line, cut to about `limit` characters, for messages.
std::string show(const TomlValue& value, std::size_t limit = 60);
// `text` cut to `limit` characters at a UTF-8 boundary; control characters become "?".
std::string shorten(const std::string& text, std::size_t limit = 60);

}  // namespace trireme::io
