// Lines of JSON, read with errors that name the line, and written.
// SPDX-License-Identifier: Apache-2.0
#include "text/json_lines.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "text/config_node.hpp"

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
    require(whole, Status::bad_content, "{}: {} is no token id", place, id.dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::string field_of_json(std::string_view line, const std::string& field,
                          const std::string& place) {
  const Json json = parse_json(line, place);
  require(json.is_object(), Status::bad_content,
          "{}: a JSON object is expected, whose member \"{}\" is the text", place,
          one_line(field));
  const auto found = json.find(field);
  require(found != json.end(), Status::bad_content,
          "{}: has no member \"{}\"; --field names another one", place, one_line(field));
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
