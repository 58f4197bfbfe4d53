// JsonLines: every error names the line.
// SPDX-License-Identifier: Apache-2.0
#include "io/json_lines.hpp"

#include <string_view>

#include "base/error.hpp"
#include "io/json_members.hpp"

namespace trireme::io {
namespace {

constexpr int deepest = 64;  // objects and lists of a line that are open at once

// Some editors begin a file of UTF-8 with it.
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// Text that shows the value, not longer than a message may be.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

Json parse_line(std::string_view line, const std::string& source) {
  Json json = parse_json(line, deepest, source);
  require(json.is_object(), Status::bad_content, "{}: an object is expected, not {}",
          source, shown(json));
  try {
    for_each_member(line, 1, deepest, [](const auto&...) {});
  } catch (const JsonMistake& error) {
    fail(Status::bad_content, "{}: {}", source, error.what());
  }
  return json;
}

}  // namespace

std::optional<JsonLines::Line> JsonLines::next() {
  while (auto line = lines_.next()) {
    ++number_;
    if (number_ == 1 && line->starts_with(byte_order_mark))
      line->erase(0, byte_order_mark.size());
    const std::string source = format("{}: line {}", path_, number_);
    require(line->size() < LineReader::most_line_bytes, Status::bad_content,
            "{}: is longer than {} bytes", source, LineReader::most_line_bytes);
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    return Line{parse_line(*line, source), source, number_};
  }
  return {};
}

}  // namespace trireme::io
