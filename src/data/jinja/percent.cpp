// Texts with places for values: Python's "%s: %d" % (name, number).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/number.hpp"
#include "data/jinja/filters.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

constexpr std::int64_t widest = 1000;

// %[-0+ ][width][.digits]letter
struct Place {
  bool left = false, zeros = false, plus = false, blank = false;
  std::int64_t width = 0, digits = -1;
  char letter = '\0';
};

class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  Place read() {
    Place place;
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_[0] == '-')
        place.left = true;
      else if (rest_[0] == '0')
        place.zeros = true;
      else if (rest_[0] == '+')
        place.plus = true;
      else if (rest_[0] == ' ')
        place.blank = true;
      else
        break;
    }
    place.width = number(0);
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      place.digits = number(0);
    }
    if (rest_.empty()) refuse("a form ends within a place for a value");
    place.letter = rest_[0];
    rest_.remove_prefix(1);
    return place;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::int64_t number(std::int64_t otherwise) {
    const auto end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    if (end == 0) return otherwise;
    const auto value = parse_number<std::int64_t>(rest_.substr(0, end));
    if (!value || *value > widest) refuse("a place for a value is wider than 1000");
    rest_.remove_prefix(end);
    return *value;
  }

  std::string_view rest_;
};

std::string padded(std::string text, const Place& place, bool is_number) {
  const std::int64_t room = place.width - std::ssize(text::code_points(text));
  if (room <= 0) return text;
  const auto count = static_cast<std::size_t>(room);
  if (place.left) return text + std::string(count, ' ');
  if (!is_number || !place.zeros) return std::string(count, ' ') + text;
  const bool sign = text[0] == '-' || text[0] == '+' || text[0] == ' ';
  return text.insert(sign ? 1 : 0, count, '0');
}

std::string signed_text(std::string digits, bool negative, const Place& place) {
  if (negative) return "-" + digits;
  return (place.plus ? "+" : place.blank ? " " : "") + digits;
}

std::string whole_text(const Value& value, const Place& place) {
  if (!value.is_number()) refuse("a place for a number is given " + type_name(value));
  std::int64_t number = 0;
  if (value.is(Kind::real)) {
    if (!(std::abs(value.number()) < 0x1p63) || place.letter == 'x' ||
        place.letter == 'X' || place.letter == 'o')
      refuse("a place for a whole number is given a float");
    number = static_cast<std::int64_t>(value.number());
  } else {
    number = value.whole();
  }
  if (place.digits >= 0) refuse("digits of a whole number are not supported");
  const bool negative = number < 0;
  auto size = static_cast<std::uint64_t>(number);
  if (negative) size = 0 - size;
  const unsigned base = place.letter == 'o'                          ? 8
                        : place.letter == 'x' || place.letter == 'X' ? 16
                                                                     : 10;
  const char* digits = place.letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string text;
  for (; text.empty() || size > 0; size /= base)
    text.insert(text.begin(), digits[size % base]);
  return signed_text(std::move(text), negative, place);
}

std::string real_text(const Value& value, const Place& place) {
  if (!value.is_number()) refuse("a place for a number is given " + type_name(value));
  const double number = value.number();
  if (!std::isfinite(number)) refuse("a place for a number is given what is not finite");
  const int digits = place.digits < 0 ? 6 : static_cast<int>(place.digits);
  const char form[] = {'%', '.', '*', place.letter, '\0'};
  std::array<char, 2048> out{};
  const int size = std::snprintf(out.data(), out.size(), form, digits, std::abs(number));
  return signed_text(std::string(out.data(), static_cast<std::size_t>(size)),
                     std::signbit(number), place);
}

std::string text_in(const Value& value, const Place& place, Budget& budget) {
  switch (place.letter) {
    case 's':
    case 'r': {
      std::string text =
          place.letter == 's' ? to_text(value, budget) : to_repr(value, budget);
      if (place.digits >= 0) refuse("digits of a text are not supported");
      return padded(std::move(text), place, false);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': return padded(whole_text(value, place), place, true);
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G': return padded(real_text(value, place), place, true);
    default:
      refuse(format("%{} in a form is not supported", std::string(1, place.letter)));
  }
}

}  // namespace

std::string percent_text(const std::string& form, const List& values, Budget& budget) {
  std::string out;
  std::size_t used = 0;
  std::string_view rest = form;
  while (!rest.empty()) {
    const auto mark = std::min(rest.find('%'), rest.size());
    out += rest.substr(0, mark);
    rest.remove_prefix(mark);
    if (rest.empty()) break;
    Reader reader(rest.substr(1));
    const Place place = reader.read();
    rest = reader.rest();
    if (place.letter == '%') {
      out += '%';
      continue;
    }
    if (used == values.size()) refuse("a form has more places than there are values");
    budget.make(
        static_cast<std::size_t>(place.width + std::max<std::int64_t>(place.digits, 0)));
    out += text_in(values[used++], place, budget);
  }
  if (used < values.size()) refuse("a form has fewer places than there are values");
  budget.make(out.size());
  return out;
}

}  // namespace trireme::data::jinja
