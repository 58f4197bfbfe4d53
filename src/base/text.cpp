// Text that others wrote.
// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: none that is well-formed
};

// The character at the start of `text`, which is not empty. Overlong forms, surrogates
// and codes above 0x10FFFF are ill-formed (The Unicode Standard, table 3-7).
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
}

// Marks of direction: text behind them is shown in another order than it has.
bool turns_direction(std::uint32_t code) {
  return code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

// XML allows neither of the last two codes of a plane's first.
bool is_no_character(std::uint32_t code) { return code == 0xfffe || code == 0xffff; }

// Whether the blank at `at` stands between the two of "1.50 KiB".
bool parts_number_and_unit(std::string_view line, std::size_t at) {
  const std::string_view after = line.substr(std::min(at + 1, line.size()));
  return at > 0 && line[at - 1] >= '0' && line[at - 1] <= '9' &&
         (after.starts_with("KiB") || after.starts_with("MiB") ||
          after.starts_with("GiB") || after.starts_with("TiB"));
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = first_of(text).bytes;
    out += bytes > 0 ? text.substr(0, bytes) : replacement;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, bytes] = first_of(text);
    if (bytes == 0 || is_no_character(code))
      out += replacement;
    else if (code == '\n' || code == '\r' || code == '\t')
      out += ' ';
    else if (is_control(code) || turns_direction(code))
      out += '?';
    else
      out += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

std::string for_terminal(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
  }
  return out;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    const bool is_row = line.starts_with(' ');
    std::size_t blanks = 0;
    while (!is_row && line.size() + blanks > width) {
      auto cut = line.rfind(' ', width - blanks);
      const auto first = line.find_first_not_of(' ', blanks == 0 ? indent : 0);
      if (cut == std::string_view::npos || first == std::string_view::npos ||
          cut <= first)
        cut = line.find(' ', std::min(width - blanks, line.size()));
      if (cut == std::string_view::npos) break;
      if (const auto before = line.rfind(' ', cut - 1);
          parts_number_and_unit(line, cut) && before != std::string_view::npos &&
          first != std::string_view::npos && before > first)
        cut = before;
      out += std::string(blanks, ' ');
      out += line.substr(0, cut);
      out += '\n';
      line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
      blanks = indent;
    }
    out += std::string(line.empty() ? 0 : blanks, ' ');
    out += line;
    text.remove_prefix(end);
    if (!text.empty()) {
      out += '\n';
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const auto& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace trireme
