// Fields of a config.json, read one by one.
// SPDX-License-Identifier: Apache-2.0
// Absent or null ones have the default of their class.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "io/json_fields.hpp"

namespace trireme::convert {

// The object that a text of at most 32 levels is, in which no key comes twice. Throws
// Error(bad_content) naming the source.
io::Json parse_config(const std::string& text, std::string_view source);

// The padding token.
inline constexpr std::string_view pad_key = "pad_token_id";

class ConfigFields {
 public:
  // The object and the name of its source outlive this. place: of the object, "" for the
  // whole file.
  ConfigFields(const io::Json& object, std::string_view source, std::string place = "")
      : object_(object), source_(source), place_(std::move(place)) {}

  // Given, and not null.
  bool has(std::string_view key) const {
    const auto found = object_.find(std::string(key));
    return found != object_.end() && !found->is_null();
  }
  bool is_given(std::string_view key) const { return object_.contains(std::string(key)); }
  const io::Json& value(std::string_view key) const {
    return object_.at(std::string(key));
  }

  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) const {
    if (key.empty() || !has(key)) return fallback;
    return field(key).integer(least, most);
  }
  // A finite number in (above, most].
  double real(std::string_view key, double fallback, double above, double most) const {
    if (key.empty() || !has(key)) return fallback;
    const io::Json& json = value(key);
    const double number = json.is_number() ? json.get<double>() : above;
    if (!(number > above && number <= most))
      field(key).wrong(format("a number above {}, at most {}", above, most));
    return number;
  }
  // Any number but what is too large for a double.
  double finite(std::string_view key, double fallback) const {
    if (!has(key)) return fallback;
    if (!value(key).is_number() || !std::isfinite(value(key).get<double>()))
      field(key).wrong("a finite number");
    return value(key).get<double>();
  }
  bool flag(std::string_view key, bool fallback) const {
    if (key.empty() || !has(key)) return fallback;
    if (!value(key).is_boolean()) field(key).wrong("true or false");
    return value(key).get<bool>();
  }
  std::string text(std::string_view key, std::string_view fallback) const {
    return has(key) ? field(key).text() : std::string(fallback);
  }
  ConfigFields object(std::string_view key) const {
    if (!value(key).is_object()) field(key).wrong("an object");
    return {value(key), source_, place_of(key)};
  }

  // Throws Error(bad_content): "FILE: 'key' = value <what>".
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const {
    constexpr std::size_t most_shown = 60;
    std::string shown =
        value(key).dump(-1, ' ', true, io::Json::error_handler_t::replace);
    if (shown.size() > most_shown) {
      shown.resize(most_shown);
      shown += "...";
    }
    fail(Status::bad_content, "{}: '{}' = {} {}", source_, place_of(key), shown, what);
  }

  const io::Json& json() const { return object_; }
  std::string_view source() const { return source_; }
  std::string place_of(std::string_view key) const {
    return place_.empty() ? std::string(key) : place_ + "." + std::string(key);
  }

 private:
  io::JsonField field(std::string_view key) const {
    return {value(key), source_, place_of(key)};
  }

  const io::Json& object_;
  std::string_view source_;
  std::string place_;
};

}  // namespace trireme::convert
