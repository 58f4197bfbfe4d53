// Tables as bytes: what one rank tells the others, or a start the next one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"

namespace trireme::io {

// Numbers are as in memory: tables do not leave the machine.
class TableWriter {
 public:
  template <class Number>
  void number(Number value) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void word(const std::string& value) {
    number(std::uint64_t{value.size()});
    text += value;
  }
  std::string text;
};

// Throws Error(bad_content) for a text that ends too early.
class TableReader {
 public:
  explicit TableReader(std::string_view text) : text_(text) {}

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string word() { return std::string(take(number<std::uint64_t>())); }
  // Of things that take a byte or more each.
  std::uint64_t count() {
    const auto things = number<std::uint64_t>();
    require(things <= text_.size(), Status::bad_content,
            "a table of files ends before its {} entries", things);
    return things;
  }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view take(std::uint64_t bytes) {
    require(bytes <= text_.size(), Status::bad_content,
            "a table of files ends in the middle of an entry");
    const std::string_view taken = text_.substr(0, bytes);
    text_.remove_prefix(bytes);
    return taken;
  }

  std::string_view text_;
};

}  // namespace trireme::io
