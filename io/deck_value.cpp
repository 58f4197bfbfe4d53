// Reading and checking single deck values.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/number.hpp"

namespace trireme::io {

namespace {

using Kind = TomlValue::Kind;

struct Unit {
  std::string_view name;
  double size;
};

constexpr double kibi = 1024;
constexpr std::array byte_units = {Unit{"B", 1},
                                   Unit{"kB", 1e3},
                                   Unit{"KB", 1e3},
                                   Unit{"MB", 1e6},
                                   Unit{"GB", 1e9},
                                   Unit{"TB", 1e12},
                                   Unit{"PB", 1e15},
                                   Unit{"KiB", kibi},
                                   Unit{"MiB", kibi* kibi},
                                   Unit{"GiB", kibi* kibi* kibi},
                                   Unit{"TiB", kibi* kibi* kibi* kibi},
                                   Unit{"PiB", kibi* kibi* kibi* kibi* kibi}};
constexpr std::array time_units = {
    Unit{"ms", 1e-3},    Unit{"s", 1},        Unit{"sec", 1},     Unit{"seconds", 1},
    Unit{"min", 60},     Unit{"minutes", 60}, Unit{"h", 3600},    Unit{"hour", 3600},
    Unit{"hours", 3600}, Unit{"d", 86400},    Unit{"day", 86400}, Unit{"days", 86400}};

// A type without its list.
KeyType element_of(KeyType type) {
  switch (type) {
    case KeyType::integers: return KeyType::integer;
    case KeyType::reals: return KeyType::real;
    case KeyType::texts: return KeyType::text;
    default: return type;
  }
}

bool is_list(KeyType type) { return element_of(type) != type; }

std::string bound_text(const DeckKey& key, double bound) {
  const KeyType type = element_of(key.type);
  const bool whole = type == KeyType::integer || type == KeyType::bytes;
  return whole ? std::to_string(static_cast<std::int64_t>(bound)) : plain_number(bound);
}

bool in_range(const DeckKey& key, double value) {
  const bool above = key.minimum_excluded ? value > key.minimum : value >= key.minimum;
  const bool below = key.maximum_excluded ? value < key.maximum : value <= key.maximum;
  return above && below;
}

std::string check_range(const DeckKey& key, double value) {
  if (!std::isfinite(value)) return "must be finite";
  return in_range(key, value) ? "" : "must be " + range_text(key);
}

// "4 GiB" -> number 4, unit "GiB". False when the text has another form.
bool split_quantity(const std::string& text, double& number, std::string_view& unit) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(number)) return false;
  unit = {parsed.ptr, static_cast<std::size_t>(end - parsed.ptr)};
  const auto first = unit.find_first_not_of(' ');
  if (first == std::string_view::npos) return false;
  unit.remove_prefix(first);
  return true;
}

template <std::size_t N>
std::string units_text(const std::array<Unit, N>& units) {
  std::string out;
  for (const auto& unit : units)
    out += (out.empty() ? "" : ", ") + std::string(unit.name);
  return out;
}

// Reads "number unit" into `value`. Returns what is wrong.
template <std::size_t N>
std::string read_quantity(const DeckKey& key, const std::string& text,
                          const std::array<Unit, N>& units, double& value) {
  double number = 0;
  std::string_view name;
  if (!split_quantity(text, number, name)) return "expected " + expectation(key);
  const auto* unit = std::find_if(units.begin(), units.end(),
                                  [&](const Unit& u) { return u.name == name; });
  if (unit == units.end())
    return "unknown unit '" + shorten(std::string(name), 20) + "'; the units are " +
           units_text(units);
  value = number * unit->size;
  return "";
}

// A time as Slurm has it: hours:minutes:seconds or minutes:seconds, or behind days and a
// dash hours:minutes:seconds, hours:minutes or hours. Only the first number may be 60 or
// more. False for any other text.
bool read_clock(std::string_view text, double& seconds) {
  double days = 0;
  bool has_days = false;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto whole = parse_number<std::int64_t>(text.substr(0, dash));
    if (!whole || *whole < 0) return false;
    days = static_cast<double>(*whole);
    has_days = true;
    text.remove_prefix(dash + 1);
  }
  double value = 0;
  int parts = 0;
  for (bool more = true; more; ++parts) {
    const auto colon = text.find(':');
    const auto part = parse_number<std::int64_t>(text.substr(0, colon));
    if (!part || *part < 0 || (parts > 0 && *part >= 60) || parts == 3) return false;
    value = 60 * value + static_cast<double>(*part);
    more = colon != std::string_view::npos;
    if (more) text.remove_prefix(colon + 1);
  }
  if (!has_days && parts < 2) return false;
  if (has_days)
    for (; parts < 3; ++parts) value *= 60;  // days-hours or days-hours:minutes
  seconds = 86400 * days + value;
  return true;
}

std::string read_boolean(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind != Kind::boolean) return "expected " + expectation(key);
  out.flag = raw.flag;
  return "";
}

std::string read_integer(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind == Kind::real && std::abs(raw.number) < 1e15 &&
      raw.number == std::floor(raw.number))
    return "expected " + expectation(key) + "; write " +
           std::to_string(static_cast<std::int64_t>(raw.number));
  if (raw.kind != Kind::integer)
    return "expected " + expectation(key) +
           (key.type != KeyType::integer || raw.kind != Kind::text || key.unit.empty()
                ? ""
                : ", which counts " + std::string(key.unit));
  out.whole = raw.whole;
  return check_range(key, static_cast<double>(raw.whole));
}

std::string read_real(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind != Kind::integer && raw.kind != Kind::real)
    return "expected " + expectation(key);
  out.number = raw.kind == Kind::integer ? static_cast<double>(raw.whole) : raw.number;
  return check_range(key, out.number);
}

std::string read_bytes(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind != Kind::text) return read_integer(key, raw, out);
  double bytes = 0;
  const std::string wrong = read_quantity(key, raw.text, byte_units, bytes);
  if (!wrong.empty()) return wrong;
  if (bytes != std::floor(bytes)) return "is not a whole number of bytes";
  // Doubles hold every integer up to 2^53; no machine has more memory.
  if (std::abs(bytes) > 0x1p53) return "must be at most 8 PiB";
  out.whole = static_cast<std::int64_t>(bytes);
  return check_range(key, bytes);
}

std::string read_seconds(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind != Kind::text) return read_real(key, raw, out);
  if (read_clock(raw.text, out.number)) return check_range(key, out.number);
  const std::string wrong = read_quantity(key, raw.text, time_units, out.number);
  if (!wrong.empty() && raw.text.find(':') != std::string::npos)
    return "expected a time such as \"2 h\", \"02:00:00\" (hours:minutes:seconds) or "
           "\"1-02:00\" (days-hours:minutes)";
  return wrong.empty() ? check_range(key, out.number) : wrong;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// What other programs call some choices.
constexpr auto other_words =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"gpu", "cuda"},
                                                                  {"float64", "fp64"},
                                                                  {"double", "fp64"},
                                                                  {"float32", "fp32"},
                                                                  {"float", "fp32"},
                                                                  {"bfloat16", "bf16"},
                                                                  {"float16", "fp16"},
                                                                  {"half", "fp16"}});

std::string nearest_choice(const std::string& text,
                           const std::vector<std::string>& choices) {
  const std::string given = lower(text);
  for (const auto& [word, choice] : other_words)
    if (given == word &&
        std::find(choices.begin(), choices.end(), choice) != choices.end())
      return std::string(choice);
  std::string nearest;
  int least = 3;
  for (const auto& choice : choices) {
    if (text.size() > choice.size() + 3) continue;
    const int distance = edit_distance(given, lower(choice));
    if (distance < least) {
      least = distance;
      nearest = choice;
    }
  }
  return nearest;
}

std::string read_text_value(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind != Kind::text) return "expected " + expectation(key);
  out.text = raw.text;
  if (std::any_of(raw.text.begin(), raw.text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      }))
    return "must not contain control characters";
  const auto choices = split_choices(key.choices);
  if (choices.empty() ||
      std::find(choices.begin(), choices.end(), raw.text) != choices.end())
    return "";
  const std::string nearest = nearest_choice(raw.text, choices);
  return "must be " + expectation(key) +
         (nearest.empty() ? "" : "; did you mean " + quote_toml(nearest) + "?");
}

std::string read_scalar(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  switch (element_of(key.type)) {
    case KeyType::boolean: return read_boolean(key, raw, out);
    case KeyType::integer: return read_integer(key, raw, out);
    case KeyType::real: return read_real(key, raw, out);
    case KeyType::bytes: return read_bytes(key, raw, out);
    case KeyType::seconds: return read_seconds(key, raw, out);
    default: return read_text_value(key, raw, out);
  }
}

std::string read_list(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  if (raw.kind != Kind::list) {
    DeckValue single;
    const bool fits = read_scalar(key, raw, single).empty();
    return "expected " + expectation(key) + (fits ? "; write [" + show(raw) + "]" : "");
  }
  DeckKey element = key;
  element.type = element_of(key.type);
  for (std::size_t i = 0; i < raw.items.size(); ++i) {
    DeckValue item;
    const std::string wrong = read_scalar(element, raw.items[i], item);
    if (!wrong.empty())
      return format("element {}, {}: {}", i + 1, show(raw.items[i]), wrong);
    if (key.type == KeyType::integers) out.wholes.push_back(item.whole);
    if (key.type == KeyType::reals) out.numbers.push_back(item.number);
    if (key.type == KeyType::texts) out.texts.push_back(std::move(item.text));
  }
  return "";
}

template <class T, class Write>
std::string list_toml(const std::vector<T>& values, Write write) {
  std::string out = "[";
  for (const auto& value : values) out += (out.size() > 1 ? ", " : "") + write(value);
  return out + "]";
}

}  // namespace

std::string full_name(const DeckKey& key) {
  return std::string(key.section) + "." + std::string(key.name);
}

std::vector<std::string> split_choices(std::string_view choices) {
  std::vector<std::string> out;
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    out.emplace_back(choices.substr(0, bar));
    choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
  }
  return out;
}

std::string range_text(const DeckKey& key) {
  const bool low = std::isfinite(key.minimum), high = std::isfinite(key.maximum);
  const std::string least = low ? bound_text(key, key.minimum) : "";
  const std::string most = high ? bound_text(key, key.maximum) : "";
  if (low && high && !key.minimum_excluded && !key.maximum_excluded)
    return "between " + least + " and " + most;
  std::string out;
  if (low) out = key.minimum_excluded ? "above " + least : least + " or more";
  if (low && high) out += " and ";
  if (high) out += (key.maximum_excluded ? "below " : "at most ") + most;
  return out;
}

std::string type_name(KeyType type) {
  switch (type) {
    case KeyType::boolean: return "true or false";
    case KeyType::integer: return "integer";
    case KeyType::real: return "number";
    case KeyType::text: return "text";
    case KeyType::bytes: return "size";
    case KeyType::seconds: return "time";
    case KeyType::integers: return "list of integers";
    case KeyType::reals: return "list of numbers";
    case KeyType::texts: return "list of texts";
  }
  return "?";
}

std::string expectation(const DeckKey& key) {
  std::string out;
  switch (key.type) {
    case KeyType::boolean: return "true or false";
    case KeyType::text: {
      if (key.choices.empty()) return "text in quotes";
      for (const auto& choice : split_choices(key.choices))
        out += (out.empty() ? "one of " : ", ") + quote_toml(choice);
      return out;
    }
    case KeyType::bytes: out = "a size (bytes, or text such as \"4 GiB\")"; break;
    case KeyType::seconds: out = "a time (seconds, or text such as \"30 min\")"; break;
    case KeyType::integer: out = "an integer"; break;
    case KeyType::real: out = "a number"; break;
    case KeyType::texts: return "a list of texts, such as [\"a\", \"b\"]";
    case KeyType::integers: out = "a list of integers"; break;
    case KeyType::reals: out = "a list of numbers"; break;
  }
  const std::string range = range_text(key);
  if (range.empty()) return out;
  if (is_list(key.type)) return out + ", each " + range;
  return out + (range.starts_with("between") ? " " : ", ") + range;
}

std::string read_value(const DeckKey& key, const TomlValue& raw, DeckValue& out) {
  out.type = key.type;
  return is_list(key.type) ? read_list(key, raw, out) : read_scalar(key, raw, out);
}

std::string value_toml(const DeckValue& value) {
  switch (value.type) {
    case KeyType::boolean: return value.flag ? "true" : "false";
    case KeyType::integer:
    case KeyType::bytes: return std::to_string(value.whole);
    case KeyType::real:
    case KeyType::seconds: return toml_real(value.number);
    case KeyType::text: return quote_toml(value.text);
    case KeyType::integers:
      return list_toml(value.wholes, [](std::int64_t v) { return std::to_string(v); });
    case KeyType::reals: return list_toml(value.numbers, toml_real);
    case KeyType::texts: return list_toml(value.texts, quote_toml);
  }
  return {};
}

}  // namespace trireme::io
