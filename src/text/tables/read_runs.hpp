// Expands the generated tables: runs of values, and code points that map to others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme::text::tables {

// Takes the hexadecimal number at the head of `text`, and the character behind it.
inline std::uint32_t take_number(std::string_view& text, char& end) {
  std::uint32_t value = 0;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value * 16 + static_cast<std::uint32_t>(c - 'a' + 10);
    else
      break;
  }
  end = at < text.size() ? text[at] : ' ';
  text.remove_prefix(std::min(at + 1, text.size()));
  return value;
}

// Fills a table of all code points with the values of "count.value" words.
template <std::size_t N>
void fill_runs(std::string_view text, std::array<std::uint8_t, N>& table) {
  std::size_t at = 0;
  for (char end = ' '; !text.empty();) {
    const std::uint32_t count = take_number(text, end);
    const auto value = static_cast<std::uint8_t>(take_number(text, end));
    std::fill_n(table.begin() + static_cast<std::ptrdiff_t>(at),
                std::min<std::size_t>(count, N - at), value);
    at = std::min(N, at + count);
  }
}

// Calls put(code, image) for every pair of "first.image[.count.step]" words.
template <class Put>
void for_each_single(std::string_view text, const Put& put) {
  for (char end = ' '; !text.empty();) {
    const std::uint32_t first = take_number(text, end);
    const std::uint32_t image = take_number(text, end);
    std::uint32_t count = 1, step = 1;
    if (end == '.') {
      count = take_number(text, end);
      step = take_number(text, end);
    }
    for (std::uint32_t i = 0; i < count; ++i)
      put(static_cast<char32_t>(first + i * step),
          static_cast<char32_t>(image + i * step));
  }
}

}  // namespace trireme::text::tables
