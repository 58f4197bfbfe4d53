// Methods of texts in templates that pad, partition or test characters: Python's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "data/jinja/filters.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

// Digits that are no decimal ones: in a circle, above or below the line, with a point.
bool is_other_digit(char32_t c) {
  constexpr std::pair<char32_t, char32_t> spans[] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
      {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
      {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
      {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
      {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  return std::any_of(std::begin(spans), std::end(spans), [&](const auto& span) {
    return c >= span.first && c <= span.second;
  });
}

Value all_digits(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  budget.make(self.text().size());
  const std::u32string codes = text::code_points(self.text());
  return Value::of(
      !codes.empty() && std::all_of(codes.begin(), codes.end(), [](char32_t code) {
        return text::is_in(code, bit(text::Category::Nd)) || is_other_digit(code);
      }));
}

Value all_ascii(const Value& self, const Arguments& arguments, Budget&) {
  arguments.bind({});
  return Value::of(std::none_of(self.text().begin(), self.text().end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x80;
  }));
}

// What is wider than any text may be reads as that: sums do not overflow.
std::int64_t width_in(const Value& value) {
  return std::clamp<std::int64_t>(whole_of(value, "width"), 0, std::int64_t{1} << 40);
}

// Filled up to a width, which counts characters; the text stands at `side` or between.
template <Side side>
Value widened(const Value& self, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"width", "fillchar"});
  const std::string fill =
      bound[1].is(Kind::undefined) ? " " : text_of(bound[1], "what fills a text");
  if (text::code_points(fill).size() != 1) refuse("a text is filled up by one character");
  const std::int64_t width = width_in(bound[0]);
  const std::int64_t room = width - std::ssize(text::code_points(self.text()));
  if (room <= 0) return self;
  budget.make(self.text().size() + static_cast<std::size_t>(room) * fill.size());
  const std::int64_t before = side == Side::left    ? 0
                              : side == Side::right ? room
                                                    : room / 2 + (room & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < before; ++i) out += fill;
  out += self.text();
  for (std::int64_t i = before; i < room; ++i) out += fill;
  return Value::of(std::move(out));
}

Value zero_filled(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::int64_t width = width_in(arguments.bind({"width"})[0]);
  const std::int64_t room = width - std::ssize(text::code_points(self.text()));
  if (room <= 0) return self;
  budget.make(self.text().size() + static_cast<std::size_t>(room));
  const bool sign = self.text().starts_with('-') || self.text().starts_with('+');
  std::string out = self.text();
  return Value::of(out.insert(sign ? 1 : 0, static_cast<std::size_t>(room), '0'));
}

// What stands before a mark, the mark, and what stands behind it.
template <bool from_right>
Value partition(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string& mark = text_of(arguments.bind({"sep"})[0], "what a text is cut at");
  if (mark.empty()) refuse("a text cannot be cut at an empty one");
  const std::string& text = self.text();
  budget.make(text.size());
  const auto at = from_right ? text.rfind(mark) : text.find(mark);
  const Value none = Value::of(std::string());
  if (at == text.npos)
    return from_right ? Value::tuple({none, none, self})
                      : Value::tuple({self, none, none});
  return Value::tuple({Value::of(text.substr(0, at)), Value::of(mark),
                       Value::of(text.substr(at + mark.size()))});
}

}  // namespace

const Methods& padding_methods() {
  static const Methods methods = {
      {"isdigit", all_digits},         {"isascii", all_ascii},
      {"center", widened<Side::both>}, {"ljust", widened<Side::left>},
      {"rjust", widened<Side::right>}, {"zfill", zero_filled},
      {"partition", partition<false>}, {"rpartition", partition<true>},
  };
  return methods;
}

}  // namespace trireme::data::jinja
