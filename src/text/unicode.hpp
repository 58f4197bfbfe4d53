// Properties of Unicode's characters, as the `tokenizers` library knows them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::text {

// General categories of Unicode 16; the order is that of the tables.
enum class Category : std::uint8_t {
  Cn,
  Cc,
  Cf,
  Co,
  Cs,
  Ll,
  Lm,
  Lo,
  Lt,
  Lu,
  Mc,
  Me,
  Mn,
  Nd,
  Nl,  //
  No,
  Pc,
  Pd,
  Pe,
  Pf,
  Pi,
  Po,
  Ps,
  Sc,
  Sk,
  Sm,
  So,
  Zl,
  Zp,
  Zs
};

// A set of categories.
using Categories = std::uint32_t;
constexpr Categories bit(Category category) {
  return Categories{1} << static_cast<unsigned>(category);
}
template <class... Each>
constexpr Categories set_of(Each... each) {
  return (bit(each) | ...);
}
inline constexpr Categories letters =
    set_of(Category::Ll, Category::Lm, Category::Lo, Category::Lt, Category::Lu);
inline constexpr Categories marks = set_of(Category::Mc, Category::Me, Category::Mn);
inline constexpr Categories numbers = set_of(Category::Nd, Category::Nl, Category::No);
inline constexpr Categories punctuation =
    set_of(Category::Pc, Category::Pd, Category::Pe, Category::Pf, Category::Pi,
           Category::Po, Category::Ps);
inline constexpr Categories symbols =
    set_of(Category::Sc, Category::Sk, Category::Sm, Category::So);
inline constexpr Categories others =
    set_of(Category::Cn, Category::Cc, Category::Cf, Category::Co, Category::Cs);
inline constexpr Categories separators = set_of(Category::Zl, Category::Zp, Category::Zs);

inline constexpr char32_t code_points_end = 0x110000;

// The categories that a regular expression's "L", "Lu" or "Letter" name; 0 for no name.
Categories categories_named(std::string_view name);

// What the tables hold of each code point: Category and flags.
inline constexpr std::uint8_t category_mask = 0x1F;
inline constexpr std::uint8_t white_space_flag = 0x20;
inline constexpr std::uint8_t word_flag = 0x40;
inline constexpr std::uint8_t old_mark_flag = 0x80;
const std::array<std::uint8_t, code_points_end>& property_table();

inline std::uint8_t properties(char32_t code) { return property_table()[code]; }
inline bool is_in(char32_t code, Categories set) {
  return (set >> (properties(code) & category_mask) & 1) != 0;
}
// The 25 characters of White_Space.
inline bool is_space(char32_t code) { return (properties(code) & white_space_flag) != 0; }
// \w of Rust's regular expressions: alphabetic characters, marks, decimal digits,
// connectors, joiners.
inline bool is_rust_word(char32_t code) {
  return (properties(code) & word_flag) != 0 || code == 0x200C || code == 0x200D;
}
// \w of Oniguruma: without joiners, but with small digits and fractions of Latin-1.
inline bool is_word(char32_t code) {
  return (properties(code) & word_flag) != 0 || code == 0xB2 || code == 0xB3 ||
         code == 0xB9 || (code >= 0xBC && code <= 0xBE);
}
// A mark that Unicode 9.0 had.
inline bool is_old_mark(char32_t code) { return (properties(code) & old_mark_flag) != 0; }
// Rust's char::is_numeric, whose data are those of Unicode 17.
bool is_numeric(char32_t code);

// Simple lower case, and "i" with a dot above for U+0130.
void append_lower(std::string& out, char32_t code);

}  // namespace trireme::text
