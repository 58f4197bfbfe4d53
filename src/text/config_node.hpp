// A value of a tokenizer's JSON file, read so that every error says where it stands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.hpp"

namespace trireme::text {

using Json = nlohmann::json;

// How many objects and lists of such a text may be open at once: what is in them is
// copied and walked by recursion.
inline constexpr int deepest_json = 256;

// The text as JSON. Throws Error(bad_content) naming `source`.
Json parse_json(std::string_view text, const std::string& source);

// Every call throws Error(bad_content) that names file, place and what was expected.
class ConfigNode {
 public:
  // Both outlive the node.
  ConfigNode(const Json& value, const std::string& source, std::string place = "")
      : value_(value), source_(source), place_(std::move(place)) {}

  const Json& value() const { return value_; }
  bool is_null() const { return value_.is_null(); }
  // Present and not null.
  bool has(const char* key) const;
  ConfigNode at(const char* key) const;
  std::vector<ConfigNode> elements() const;
  // The object has no other keys than these, for one that is not understood would change
  // what comes out.
  void only(std::initializer_list<std::string_view> keys) const;

  std::string type() const { return at("type").text(); }
  std::string text() const;
  double number() const;
  std::int64_t integer() const;
  bool boolean() const;
  // The field, or the fallback where it is absent or null.
  std::string text(const char* key, const std::string& fallback) const;
  std::optional<std::string> optional_text(const char* key) const;
  bool boolean(const char* key, bool fallback) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const Json& value_;
  const std::string& source_;
  std::string place_;
};

}  // namespace trireme::text
