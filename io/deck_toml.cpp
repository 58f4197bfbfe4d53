// TOML text to a plain tree, through toml++.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_toml.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "base/format.hpp"

namespace trireme::io {

namespace {

// Each part of a dotted key nests a table, and nested tables are freed by recursion: a
// key of a million parts would overflow the stack. The parser itself bounds the nesting
// of values, but not this.
constexpr int most_key_parts = 16;
// Deeper values are refused before anything else of ours walks them.
constexpr int most_levels = 32;

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         c == '_' || c == '-';
}

// Index after the string that begins at `at`, or the end of its line.
std::size_t skip_string(const std::string& text, std::size_t at) {
  const char mark = text[at];
  for (++at; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == mark) return at + 1;
    if (text[at] == '\\' && mark == '"' && at + 1 < text.size() && text[at + 1] != '\n')
      ++at;
  }
  return at;
}

void check_key_parts(const std::string& text) {
  int line = 1, dots = 0;
  std::size_t line_begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = skip_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.') {
      if (++dots >= most_key_parts)
        throw TomlError(format("a key has more than {} parts", most_key_parts), line,
                        static_cast<int>(at - line_begin) + 1);
    } else if (c == '\n') {
      ++line;
      line_begin = at + 1;
      dots = 0;
    } else if (!is_bare(c) && c != ' ' && c != '\t') {
      dots = 0;
    }
    ++at;
  }
}

void check_is_text(const std::string& text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw TomlError("is text in UTF-16: save it in UTF-8", 0, 0);
  const auto zero = text.find('\0');
  if (zero != std::string::npos)
    throw TomlError(format("not a text file: byte {} is zero", zero), 0, 0);
}

void place(const toml::source_region& source, int& line, int& column) {
  line = static_cast<int>(source.begin.line);
  column = static_cast<int>(source.begin.column);
}

TomlValue convert(const toml::node& node, int level);

void convert_table(const toml::table& table, TomlValue& out, int level) {
  for (const auto& [key, value] : table) {
    TomlValue::Member member;
    member.name = key.str();
    place(key.source(), member.line, member.column);
    member.value = convert(value, level + 1);
    out.members.push_back(std::move(member));
  }
  std::stable_sort(out.members.begin(), out.members.end(),
                   [](const auto& a, const auto& b) {
                     return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                   });
}

TomlValue convert(const toml::node& node, int level) {
  using Kind = TomlValue::Kind;
  TomlValue out;
  place(node.source(), out.line, out.column);
  if (level > most_levels)
    throw TomlError(format("values are nested more than {} deep", most_levels), out.line,
                    out.column);
  if (const auto* table = node.as_table()) {
    out.kind = Kind::table;
    convert_table(*table, out, level);
  } else if (const auto* list = node.as_array()) {
    out.kind = Kind::list;
    out.items.reserve(list->size());
    for (const auto& item : *list) out.items.push_back(convert(item, level + 1));
  } else if (const auto* flag = node.as_boolean()) {
    out.kind = Kind::boolean;
    out.flag = flag->get();
  } else if (const auto* whole = node.as_integer()) {
    out.kind = Kind::integer;
    out.whole = whole->get();
  } else if (const auto* number = node.as_floating_point()) {
    out.kind = Kind::real;
    out.number = number->get();
  } else if (const auto* text = node.as_string()) {
    out.kind = Kind::text;
    out.text = text->get();
  } else {
    out.kind = Kind::date;
    std::ostringstream printed;
    if (const auto* date = node.as_date()) printed << date->get();
    if (const auto* time = node.as_time()) printed << time->get();
    if (const auto* both = node.as_date_time()) printed << both->get();
    out.text = printed.str();
  }
  return out;
}

std::string show_items(const TomlValue& value, std::size_t limit) {
  const bool table = value.kind == TomlValue::Kind::table;
  std::string out = table ? "{" : "[";
  const char* separator = table ? " " : "";
  for (const auto& item : value.items) {
    out += separator + show(item, limit);
    separator = ", ";
    if (out.size() > limit) return out;
  }
  for (const auto& member : value.members) {
    out += separator + quote_key(member.name) + " = " + show(member.value, limit);
    separator = ", ";
    if (out.size() > limit) return out;
  }
  if (!table) return out + "]";
  return value.members.empty() ? "{}" : out + " }";
}

}  // namespace

TomlValue parse_toml(const std::string& text) {
  check_is_text(text);
  check_key_parts(text);
  try {
    const toml::table table = toml::parse(std::string_view(text));
    TomlValue root;
    convert_table(table, root, 0);
    return root;
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    std::string what = shorten(std::string(error.description()), 200);
    // Of a quote that is not closed TOML++ says that the line's end may not be in a text.
    if (what.find("control characters") != std::string::npos &&
        what.find("string") != std::string::npos)
      what = "a text has no end: is a quote missing? (" + what + ")";
    if (what.find("could not determine value type") != std::string::npos)
      what +=
          "; texts stand in quotes (name = \"x\"), and numbers begin with a digit (0.1)";
    throw TomlError("not valid TOML: " + what, static_cast<int>(at.line),
                    static_cast<int>(at.column));
  }
}

TomlValue parse_toml_value(const std::string& text) {
  TomlValue root = parse_toml("value = " + text);
  if (root.members.size() != 1) throw TomlError("more than one value", 0, 0);
  return std::move(root.members.front().value);
}

std::string quote_toml(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04X", static_cast<unsigned>(byte));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string quote_key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_bare);
  return bare ? name : quote_toml(name);
}

std::string plain_number(double value) {
  const double size = std::abs(value);
  if (size != 0 && !(size >= 1e-4 && size < 1e15)) return exact(value);
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed)
                       .ptr;
  return {text.data(), end};
}

std::string toml_real(double value) {
  const std::string text = plain_number(value);
  const bool marked = text.find_first_of(".ein") != std::string::npos;
  return marked ? text : text + ".0";
}

std::string shorten(const std::string& text, std::size_t limit) {
  std::size_t end = std::min(text.size(), limit);
  const auto continues = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u;
  };
  while (end > 0 && continues(end)) --end;
  std::string out = text.substr(0, end);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return end < text.size() ? out + "..." : out;
}

std::string show(const TomlValue& value, std::size_t limit) {
  switch (value.kind) {
    case TomlValue::Kind::boolean: return value.flag ? "true" : "false";
    case TomlValue::Kind::integer: return std::to_string(value.whole);
    case TomlValue::Kind::real: return toml_real(value.number);
    case TomlValue::Kind::date: return value.text;
    case TomlValue::Kind::text:
      // Cut before quoting: a deck may hold a text of megabytes.
      return shorten(quote_toml(value.text.substr(0, limit + 4)), limit);
    case TomlValue::Kind::list:
    case TomlValue::Kind::table: return shorten(show_items(value, limit), limit);
  }
  return {};
}

}  // namespace trireme::io
