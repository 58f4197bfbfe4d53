// Letters for bytes, and bytes for letters.
// SPDX-License-Identifier: Apache-2.0
#include "text/byte_letters.hpp"

#include <array>

#include "text/utf8.hpp"

namespace trireme::text {
namespace {

constexpr char32_t end_of_letters = 0x100 + 68;

struct Table {
  std::array<char32_t, 256> letters{};
  std::array<int, end_of_letters> bytes{};
};

constexpr Table make_table() {
  Table table;
  table.bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool stands_for_itself =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const char32_t letter = stands_for_itself ? static_cast<char32_t>(byte) : next++;
    table.letters[static_cast<std::size_t>(byte)] = letter;
    table.bytes[letter] = byte;
  }
  return table;
}

constexpr Table table = make_table();

}  // namespace

char32_t letter_of(unsigned char byte) { return table.letters[byte]; }

int byte_of(char32_t letter) {
  return letter < end_of_letters ? table.bytes[letter] : -1;
}

std::string letters_of(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append(out, letter_of(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string out;
  for (std::size_t at = 0; at < letters.size();) {
    const CodePoint c = code_point_at(letters, at);
    const int byte = byte_of(c.value);
    if (byte < 0) return {};
    out += static_cast<char>(byte);
    at += c.bytes;
  }
  return out;
}

}  // namespace trireme::text
