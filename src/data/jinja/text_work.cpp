// What filters and methods of templates do with texts: capitals, replacing, stripping.
// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/filters.hpp"
#include "data/jinja/lexer.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {

Value made(std::string text, Budget& budget) {
  budget.make(text.size());
  return Value::of(std::move(text));
}

const std::string& text_of(const Value& value, const char* what) {
  if (value.is(Kind::undefined)) refuse("'" + value.missing_name() + "' is undefined");
  if (!value.is(Kind::text))
    refuse(std::string(what) + " must be a str, not " + type_name(value));
  return value.text();
}

std::int64_t whole_of(const Value& value, const char* what) {
  if (!value.is(Kind::integer) && !value.is(Kind::boolean))
    refuse(std::string(what) + " must be a whole number, not " + type_name(value));
  return value.whole();
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const text::CodePoint code = text::code_point_at(text, at);
    text::append_lower(out, code.value);
    at += code.bytes;
  }
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const text::CodePoint code = text::code_point_at(text, at);
    const bool has_case =
        code.value >= 0x80 &&
        text::is_in(code.value, bit(text::Category::Ll) | bit(text::Category::Lt));
    if (has_case)
      refuse(
          "upper, title and capitalize make capitals of ASCII letters only; the text has "
          "'" +
          std::string(text.substr(at, code.bytes)) +
          "': change the case in the data, not in the template");
    if (code.value >= 'a' && code.value <= 'z')
      out += static_cast<char>(code.value - 32);
    else
      out += text.substr(at, code.bytes);
    at += code.bytes;
  }
  return out;
}

std::string capital_case(std::string_view text) {
  if (text.empty()) return "";
  const std::size_t first = text::length_at(static_cast<unsigned char>(text[0]));
  return upper_case(text.substr(0, first)) + lower_case(text.substr(first));
}

std::string title_case(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const text::CodePoint code = text::code_point_at(text, at);
    const std::string_view character = text.substr(at, code.bytes);
    const bool letter = text::is_in(code.value, text::letters);
    out += !letter   ? std::string(character)
           : in_word ? lower_case(character)
                     : upper_case(character);
    in_word = letter;
    at += code.bytes;
  }
  return out;
}

std::string replaced(const std::string& text, const std::string& old,
                     const std::string& with, std::int64_t most, Budget& budget) {
  std::string out;
  std::size_t at = 0;
  std::int64_t done = 0;
  const auto unlimited = most < 0;
  while (unlimited || done < most) {
    const std::size_t found = text.find(old, at);
    if (found == text.npos) break;
    budget.make(with.size() + found - at + 1);
    out += text.substr(at, found - at) + with;
    at = found + old.size();
    ++done;
    if (!old.empty()) continue;
    if (at >= text.size()) {  // an empty text is found before each character and behind
      return out;
    }
    const std::size_t one = text::length_at(static_cast<unsigned char>(text[at]));
    out += text.substr(at, one);
    at += one;
  }
  budget.make(text.size() - at);
  return out + text.substr(at);
}

std::string stripped(const std::string& text, const Value& characters, Side side) {
  const bool space = characters.is(Kind::undefined) || characters.is(Kind::none);
  const std::u32string set =
      space ? U"" : text::code_points(text_of(characters, "what is stripped"));
  const auto goes = [&](char32_t code) {
    return space ? is_python_space(code) : set.find(code) != set.npos;
  };
  std::string_view left = text;
  while (side != Side::right && !left.empty() && goes(text::code_point_at(left, 0).value))
    left.remove_prefix(text::code_point_at(left, 0).bytes);
  while (side != Side::left && !left.empty() &&
         goes(text::code_point_before(left, left.size()).value))
    left.remove_suffix(text::code_point_before(left, left.size()).bytes);
  return std::string(left);
}

}  // namespace trireme::data::jinja
