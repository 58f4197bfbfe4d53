// JSON text from a file, read field by field: every error says where it was found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "io/json.hpp"

namespace trireme::io {

using Json = nlohmann::ordered_json;

// "" for JSON text of objects and lists that are at most `depth` deep, or what is wrong
// with it, and at which byte. Takes no memory, so that hostile text takes none either.
std::string why_no_json(std::string_view text, int depth);
// What the parser says against `text`, in one line of UTF-8; of a text of one line
// without the number of that.
std::string why_not_parsed(const Json::exception& error, std::string_view text);
// The value of such text, which is taken from `source`, or Error(bad_content).
Json parse_json(std::string_view text, int depth, std::string_view source);

// A value in JSON text, and its place there, such as "tensors[12].shape". The text
// outlives it. Every call throws Error(bad_content) naming source, place and what was
// expected when the value is not that.
class JsonField {
 public:
  // `source`: the file, or what else the text came from.
  JsonField(const Json& value, std::string_view source, std::string place = "")
      : value_(value), source_(source), place_(std::move(place)) {}

  bool has(const char* key) const;
  // Takes the field of an object.
  JsonField at(const char* key) const;
  // Size and elements of a list; fails on anything else.
  std::size_t size() const;
  JsonField at(std::size_t index) const;

  std::string text() const;
  // Fails unless the integer lies in [least, most].
  std::int64_t integer(std::int64_t least, std::int64_t most = INT64_MAX) const;

  // "manifest.json: 'tensors[12].shape' must be a list of 1 to 4 extents, not {...}".
  [[noreturn]] void wrong(const std::string& expected) const;
  const std::string& place() const { return place_; }

 private:
  const Json& value_;
  std::string_view source_;
  std::string place_;
};

}  // namespace trireme::io
