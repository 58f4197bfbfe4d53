// Values of a tokenizer's JSON file, with errors that say where they stand.
// SPDX-License-Identifier: Apache-2.0
#include "text/config_node.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_depth.hpp"
#include "io/json_fields.hpp"

namespace trireme::text {

Json parse_json(std::string_view text, const std::string& source) {
  require(!io::nests_deeper(text, deepest_json), Status::bad_content,
          "{}: more than {} objects and lists are open at once", source, deepest_json);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    fail(Status::bad_content, "{}: is no JSON: {}", source,
         io::why_not_parsed(error, text));
  }
}

bool ConfigNode::has(const char* key) const {
  if (!value_.is_object()) fail("must be an object");
  const auto found = value_.find(key);
  return found != value_.end() && !found->is_null();
}

ConfigNode ConfigNode::at(const char* key) const {
  if (!value_.is_object()) fail("must be an object");
  const auto found = value_.find(key);
  if (found == value_.end()) fail(std::string("lacks \"") + key + "\"");
  return {*found, source_, place_.empty() ? key : place_ + "." + key};
}

std::vector<ConfigNode> ConfigNode::elements() const {
  if (!value_.is_array()) fail("must be a list");
  std::vector<ConfigNode> all;
  all.reserve(value_.size());
  // There are hundreds of thousands of these in a vocabulary: format() would take longer
  // than reading the file.
  for (std::size_t i = 0; i < value_.size(); ++i)
    all.emplace_back(value_[i], source_, place_ + '[' + std::to_string(i) + ']');
  return all;
}

void ConfigNode::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : value_.items())
    if (key != "type" && std::find(keys.begin(), keys.end(), key) == keys.end())
      fail("has \"" + one_line(key) + "\", which is not supported");
}

std::string ConfigNode::text() const {
  if (!value_.is_string()) fail("must be a text");
  return value_.get<std::string>();
}

double ConfigNode::number() const {
  if (!value_.is_number()) fail("must be a number");
  return value_.get<double>();
}

std::int64_t ConfigNode::integer() const {
  if (!value_.is_number_integer()) fail("must be a whole number");
  return value_.get<std::int64_t>();
}

bool ConfigNode::boolean() const {
  if (!value_.is_boolean()) fail("must be true or false");
  return value_.get<bool>();
}

std::string ConfigNode::text(const char* key, const std::string& fallback) const {
  return has(key) ? at(key).text() : fallback;
}

std::optional<std::string> ConfigNode::optional_text(const char* key) const {
  if (!has(key)) return {};
  return at(key).text();
}

bool ConfigNode::boolean(const char* key, bool fallback) const {
  return has(key) ? at(key).boolean() : fallback;
}

void ConfigNode::fail(const std::string& what) const {
  trireme::fail(Status::bad_content, "{}: {} {}", source_,
                place_.empty() ? "the file" : "'" + one_line(place_) + "'", what);
}

}  // namespace trireme::text
