// JSON text from a file, read field by field.
// SPDX-License-Identifier: Apache-2.0
#include "io/json_fields.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_depth.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t most_shown = 40;

// What a message shows of a value: containers by their kind, for they may be long.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return format("a list of {}", value.size());
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > most_shown) text = text.substr(0, most_shown) + "...";
  return text;
}

}  // namespace

std::string why_no_json(std::string_view text, int depth) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "it is empty";
  if (text[first] != '{' && text[first] != '[') return "it does not begin with '{'";
  int open = 0;
  for (std::size_t at = first; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = after_json_string(text, at);
      continue;
    }
    if (c == '\0') return format("it has a zero at byte {}", at);  // no end, as C has it
    if (c == '{' || c == '[') {
      if (++open > depth)
        return format("more than {} objects and lists are open at byte {}", depth, at);
    } else if (c == '}' || c == ']') {
      if (--open < 0) return format("what closes at byte {} was never opened", at);
    }
    ++at;
  }
  return open == 0 ? "" : "it ends too early";
}

std::string why_not_parsed(const Json::exception& error, std::string_view text) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
  std::string what = valid_utf8(error.what());  // it shows bytes of the text
  if (const auto begin = what.find("] "); begin != what.npos) what.erase(0, begin + 2);
  // Of a line of a file the place is known: it is not the first one.
  constexpr std::string_view line = "line 1, ";
  const auto at = what.find(line);
  if (at != what.npos && text.find('\n') == text.npos) what.erase(at, line.size());
  return one_line(what);
}

Json parse_json(std::string_view text, int depth, std::string_view source) {
  const std::string wrong = why_no_json(text, depth);
  require(wrong.empty(), Status::bad_content, "{}: is no JSON: {}", source, wrong);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    fail(Status::bad_content, "{}: is no JSON: {}", source, why_not_parsed(error, text));
  }
}

bool JsonField::has(const char* key) const {
  return value_.is_object() && value_.contains(key);
}

JsonField JsonField::at(const char* key) const {
  if (!value_.is_object()) wrong("an object");
  const std::string place = place_.empty() ? key : format("{}.{}", place_, key);
  const auto found = value_.find(key);
  require(found != value_.end(), Status::bad_content, "{}: '{}' is missing", source_,
          place);
  return {*found, source_, place};
}

std::size_t JsonField::size() const {
  if (!value_.is_array()) wrong("a list");
  return value_.size();
}

JsonField JsonField::at(std::size_t index) const {
  const std::string place = format("{}[{}]", place_, index);
  require(index < size(), Status::bad_content, "{}: '{}' is missing", source_, place);
  return {value_[index], source_, place};
}

std::string JsonField::text() const {
  if (!value_.is_string()) wrong("a text");
  return value_.get<std::string>();
}

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most) const {
  const bool fits =
      value_.is_number_unsigned()
          ? value_.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
          : value_.is_number_integer();
  const std::int64_t number = fits ? value_.get<std::int64_t>() : 0;
  if (!fits || number < least || number > most)
    wrong(most == INT64_MAX ? format("an integer of {} or more", least)
                            : format("an integer from {} to {}", least, most));
  return number;
}

void JsonField::wrong(const std::string& expected) const {
  fail(Status::bad_content, "{}: {} must be {}, not {}", source_,
       place_.empty() ? "its content" : "'" + place_ + "'", expected, shown(value_));
}

}  // namespace trireme::io
