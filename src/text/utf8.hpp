// UTF-8: reading and writing code points, and text of bytes that are none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::text {

// Bytes of the character that begins with this byte, in text that is valid.
inline std::size_t length_at(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

struct CodePoint {
  char32_t value;
  std::size_t bytes;
};

// The character at `at` of valid UTF-8.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + at;
  if (p[0] < 0x80) return {p[0], 1};
  if (p[0] < 0xE0) return {static_cast<char32_t>((p[0] & 0x1F) << 6 | (p[1] & 0x3F)), 2};
  if (p[0] < 0xF0)
    return {
        static_cast<char32_t>((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)),
        3};
  return {static_cast<char32_t>((p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 |
                                (p[2] & 0x3F) << 6 | (p[3] & 0x3F)),
          4};
}

// The last character that ends before `end`, which is not 0.
CodePoint code_point_before(std::string_view text, std::size_t end);

void append(std::string& text, char32_t code);
std::string utf8_of(char32_t code);
std::u32string code_points(std::string_view text);
// As Unicode writes it: "U+00E9", "U+1F600".
std::string code_point_name(char32_t code);

// How many bytes from the beginning on are valid UTF-8 (RFC 3629).
std::size_t valid_bytes(std::string_view text);

// Each longest part that could begin a character and does not becomes one U+FFFD, as the
// WHATWG's decoder, Python and Rust do it.
std::string replace_invalid(std::string_view text);

}  // namespace trireme::text
