// Lines of JSON, read with errors that name the line, and written.
// SPDX-License-Identifier: Apache-2.0
#include "text/json_lines.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "text/config_node.hpp"
#include "text/utf8.hpp"

namespace trireme::text {

std::string text_of_json(std::string_view line, const std::string& place) {
  const Json json = parse_json(line, place);
  require(json.is_string(), Status::bad_content,
          "{}: a JSON string is expected, such as \"some text\"", place);
  return json.get<std::string>();
}

std::vector<std::int32_t> ids_of_json(std::string_view line, const std::string& place) {
  const Json json = parse_json(line, place);
  require(json.is_array(), Status::bad_content,
          "{}: a JSON array of token ids is expected, such as [15496, 995]", place);
  std::vector<std::int32_t> ids;
  ids.reserve(json.size());
  for (const Json& id : json) {
    const bool whole = id.is_number_integer() && id.get<std::int64_t>() >= 0 &&
                       id.get<std::int64_t>() <= INT32_MAX;
    if (!whole)
      fail(Status::bad_content, "{}: {} is no token id", place,
           id.is_structured() ? id.type_name() : id.dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

namespace {

// A string whose first quote has been read; `rest` begins behind the last one then.
// Nothing for pairs of surrogates and for what is no string.
std::optional<std::string> plain_string(std::string_view& rest) {
  std::string text;
  while (true) {
    std::size_t plain = 0;
    while (plain < rest.size() && rest[plain] != '"' && rest[plain] != '\\' &&
           static_cast<unsigned char>(rest[plain]) >= 0x20)
      ++plain;
    text += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      return text;
    }
    if (rest.size() < 2 || rest[0] != '\\') return {};
    constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const std::size_t escape = names.find(rest[1]);
    if (escape != names.npos) {
      text += meant[escape];
      rest.remove_prefix(2);
      continue;
    }
    if (rest[1] != 'u' || rest.size() < 6) return {};
    std::uint32_t code = 0;
    const auto end = std::from_chars(rest.data() + 2, rest.data() + 6, code, 16).ptr;
    if (end != rest.data() + 6 || (code >= 0xD800 && code < 0xE000)) return {};
    text += utf8_of(code);
    rest.remove_prefix(6);
  }
}

// The text of an object that has no other member, as most corpora have it, without a tree
// of values. Nothing for any other line: parse_json() reads it, or says what is wrong.
std::optional<std::string> sole_text(std::string_view line, const std::string& field) {
  const auto is_escaped = [](char c) {
    return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
  };
  if (std::any_of(field.begin(), field.end(), is_escaped) ||
      valid_bytes(line) != line.size())
    return {};
  const auto skip = [&](std::string_view word) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r\n"), line.size()));
    const bool there = line.starts_with(word);
    if (there) line.remove_prefix(word.size());
    return there;
  };
  if (!skip("{") || !skip("\"" + field + "\"") || !skip(":") || !skip("\"")) return {};
  auto text = plain_string(line);
  if (!text || !skip("}")) return {};
  skip("");
  if (!line.empty()) return {};
  return text;
}

// A list over many lines, or several objects in one, is what is given most often instead.
Json parse_line(std::string_view line, const std::string& place) {
  try {
    return parse_json(line, place);
  } catch (const Error& error) {
    throw Error(
        error.status(),
        format("{}; each line is to hold one object of JSON, whole", error.what()),
        error.where());
  }
}

// What reads an object that has no text.
std::string_view other_reader(const Json& line) {
  const auto has = [&](const char* one, const char* other) {
    return line.contains(one) && line.contains(other);
  };
  if (has("chosen", "rejected"))
    return "a run reads pairs of answers with data.source = \"preference\" and "
           "train.objective = \"dpo\"";
  if (line.contains("messages") || line.contains("conversations") ||
      has("prompt", "completion") || has("instruction", "output"))
    return "a run reads conversations with data.source = \"chat\"";
  return "trireme tokenize --field names another one";
}

}  // namespace

std::string field_of_json(std::string_view line, const std::string& field,
                          const std::string& place) {
  if (auto text = sole_text(line, field)) return *std::move(text);
  const Json json = parse_line(line, place);
  require(json.is_object(), Status::bad_content,
          "{}: a JSON object is expected, whose member \"{}\" is the text", place,
          one_line(field));
  const auto found = json.find(field);
  require(found != json.end(), Status::bad_content, "{}: has no member \"{}\"; {}", place,
          one_line(field), other_reader(json));
  require(found->is_string(), Status::bad_content, "{}: \"{}\" must be a text", place,
          one_line(field));
  return found->get<std::string>();
}

std::string json_of_text(std::string_view text) { return Json(std::string(text)).dump(); }

std::string json_of_ids(std::span<const std::int32_t> ids) {
  std::string out = "[";
  for (const std::int32_t id : ids) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(id);
  }
  return out + "]";
}

}  // namespace trireme::text
