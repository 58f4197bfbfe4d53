// Members of large JSON objects, seen one at a time: none is kept, none may come twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "io/json_fields.hpp"

namespace trireme::io {

// Text that is no such JSON, and whether that is because it is not UTF-8.
struct JsonMistake : std::runtime_error {
  JsonMistake(const std::string& text, bool is_utf8_mistake)
      : std::runtime_error(text), utf8(is_utf8_mistake) {}
  bool utf8;
};

// What sees a member: the key of the object that it is in ("" for the outermost), its own
// key, and its value. What it throws passes through.
using EachMember =
    std::function<void(const std::string& object, const std::string& key, const Json&)>;

// Reads one JSON object and shows every member at `level`: 1 for those of the outermost
// object, 2 for those of the objects in it. Objects and lists are at most `depth` deep.
// Takes time in proportion to the text, however many members there are. Throws
// JsonMistake, also when an object has a key twice.
void for_each_member(std::string_view text, int level, int depth, const EachMember& each);

// The value of a text; discarded where it is no JSON. Throws JsonMistake when an object
// has a key twice, of which the parser would take the last.
Json parse_json_unique_keys(std::string_view text);

}  // namespace trireme::io
