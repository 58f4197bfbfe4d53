// What names of POSIX mean, from categories and a table of other letters.
// SPDX-License-Identifier: Apache-2.0
#include "text/posix_sets.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "text/tables/read_runs.hpp"
#include "text/tables/tables.hpp"
#include "text/unicode.hpp"

namespace trireme::text {
namespace {

constexpr std::uint8_t other_alphabetic = 1, other_lower = 2, other_upper = 4;

bool is_other(char32_t code, std::uint8_t flag) {
  using Table = std::array<std::uint8_t, code_points_end>;
  static const auto table = [] {
    auto all = std::make_unique<Table>();
    tables::fill_runs(tables::other_letter_runs, *all);
    return all;
  }();
  return ((*table)[code] & flag) != 0;
}

bool is_alpha(char32_t code) {
  return is_in(code, letters | bit(Category::Nl)) || is_other(code, other_alphabetic);
}
bool is_lower(char32_t code) {
  return is_in(code, bit(Category::Ll)) || is_other(code, other_lower);
}
bool is_upper(char32_t code) {
  return is_in(code, bit(Category::Lu)) || is_other(code, other_upper);
}
bool is_digit(char32_t code) { return is_in(code, bit(Category::Nd)); }
bool is_alnum(char32_t code) { return is_alpha(code) || is_digit(code); }
bool is_blank(char32_t code) { return code == '\t' || is_in(code, bit(Category::Zs)); }
bool is_cntrl(char32_t code) { return is_in(code, bit(Category::Cc)); }
bool is_graph(char32_t code) {
  return !is_space(code) &&
         !is_in(code, set_of(Category::Cc, Category::Cn, Category::Cs));
}
bool is_print(char32_t code) { return is_graph(code) || is_in(code, bit(Category::Zs)); }
bool is_punct(char32_t code) { return is_in(code, punctuation | symbols); }
bool is_xdigit(char32_t code) {
  return (code >= '0' && code <= '9') || ((code | 32) >= 'a' && (code | 32) <= 'f');
}
bool is_ascii(char32_t code) { return code < 0x80; }
// Without the small digits and fractions that \w has.
bool is_posix_word(char32_t code) { return (properties(code) & word_flag) != 0; }

using Row = std::pair<std::string_view, bool (*)(char32_t)>;
// Those that [:name:] and \p{name} share.
constexpr Row shared[] = {
    {"alnum", is_alnum}, {"alpha", is_alpha}, {"ascii", is_ascii}, {"blank", is_blank},
    {"cntrl", is_cntrl}, {"digit", is_digit}, {"graph", is_graph}, {"lower", is_lower},
    {"print", is_print}, {"space", is_space}, {"upper", is_upper}, {"xdigit", is_xdigit},
};
constexpr Row of_brackets[] = {{"punct", is_punct}, {"word", is_posix_word}};
constexpr Row of_properties[] = {
    {"alphabetic", is_alpha}, {"lowercase", is_lower}, {"uppercase", is_upper},
    {"whitespace", is_space}, {"word", is_word},
};

template <std::size_t N>
CharacterSet find(const Row (&rows)[N], std::string_view name) {
  for (const auto& [known, belongs] : rows)
    if (known == name) return belongs;
  return {};
}

}  // namespace

CharacterSet posix_set(std::string_view name) {
  CharacterSet set = find(shared, name);
  return set ? set : find(of_brackets, name);
}

CharacterSet other_property(std::string_view name) {
  CharacterSet set = find(shared, name);
  return set ? set : find(of_properties, name);
}

}  // namespace trireme::text
