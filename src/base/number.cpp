// Numbers from text, read whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#include "base/number.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace trireme {
namespace {

template <class T>
std::optional<T> whole_number(std::string_view text, int base) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end) return {};
  return value;
}

// Of a decimal number that is out of range: whether it is below 1. The first digit that
// is not 0 tells by its distance from the point, and by the exponent.
bool is_small(std::string_view text) {
  const auto mark = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, mark);
  const bool falls =
      mark != std::string_view::npos && text.substr(mark + 1).starts_with('-');
  std::string_view power =
      mark == std::string_view::npos ? "0" : text.substr(mark + (falls ? 2 : 1));
  if (power.starts_with('+')) power.remove_prefix(1);
  const auto exponent = whole_number<std::int64_t>(power, 10);
  if (!exponent) return falls;  // more digits than the mantissa can make up for
  const auto point = std::min(digits.find('.'), digits.size());
  const auto first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) return true;
  const auto places = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  return places + (falls ? -*exponent : *exponent) <= 0;
}

}  // namespace

template <class T>
std::optional<T> parse_number(std::string_view text) {
  return whole_number<T>(text, 10);
}

template <>
std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) return {};
  if (error == std::errc()) return value;
  if (!is_small(text)) return {};
  return text.starts_with('-') ? -0.0 : 0.0;
}

template std::optional<int> parse_number(std::string_view);
template std::optional<std::int64_t> parse_number(std::string_view);
template std::optional<std::uint64_t> parse_number(std::string_view);

std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) {
  return whole_number<std::uint64_t>(text, 16);
}

}  // namespace trireme
