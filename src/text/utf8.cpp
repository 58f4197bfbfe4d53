// UTF-8: checked decoding, and the repair of bytes that are no characters.
// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.hpp"

#include <array>
#include <cstdio>

namespace trireme::text {
namespace {

struct Step {
  std::size_t bytes;  // that belong together
  bool valid;
};

// The character, or the longest beginning of one, at the head of `text`, which is not
// empty. (Unicode 16, table 3-7 and "U+FFFD substitution of maximal subparts".)
Step step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t bytes = length_at(first);
  unsigned char least = 0x80, most = 0xBF;
  if (first == 0xE0) least = 0xA0;
  if (first == 0xED) most = 0x9F;
  if (first == 0xF0) least = 0x90;
  if (first == 0xF4) most = 0x8F;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (i >= text.size() || byte(i) < least || byte(i) > most) return {i, false};
    least = 0x80;
    most = 0xBF;
  }
  return {bytes, true};
}

}  // namespace

CodePoint code_point_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return code_point_at(text, begin);
}

void append(std::string& text, char32_t code) {
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80 | ((code >> shift) & 0x3F));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string utf8_of(char32_t code) {
  std::string text;
  append(text, code);
  return text;
}

std::u32string code_points(std::string_view text) {
  std::u32string codes;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    codes += c.value;
    at += c.bytes;
  }
  return codes;
}

std::string code_point_name(char32_t code) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(code));
  return text.data();
}

std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Step next = step(text.substr(at));
    if (!next.valid) break;
    at += next.bytes;
  }
  return at;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = valid_bytes(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(step(text).bytes);
  }
  return out;
}

}  // namespace trireme::text
