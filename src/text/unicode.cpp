// Properties of Unicode's characters, expanded from the generated tables.
// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.hpp"

#include <memory>
#include <unordered_map>
#include <utility>

#include "text/tables/read_runs.hpp"
#include "text/tables/tables.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

using Table = std::array<std::uint8_t, code_points_end>;

const std::unordered_map<char32_t, char32_t>& lower_table() {
  static const auto table = [] {
    std::unordered_map<char32_t, char32_t> images;
    tables::for_each_single(tables::lower_case,
                            [&](char32_t code, char32_t image) { images[code] = image; });
    return images;
  }();
  return table;
}

}  // namespace

const Table& property_table() {
  static const auto table = [] {
    auto all = std::make_unique<Table>();
    tables::fill_runs(tables::category_runs, *all);
    return all;
  }();
  return *table;
}

Categories categories_named(std::string_view name) {
  static constexpr std::string_view names[] = {
      "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu",
      "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf",
      "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};
  static constexpr std::pair<std::string_view, std::string_view> longer[] = {
      {"Letter", "L"}, {"Mark", "M"},      {"Number", "N"}, {"Punctuation", "P"},
      {"Symbol", "S"}, {"Separator", "Z"}, {"Other", "C"},
  };
  for (const auto& [word, letter] : longer)
    if (name == word) name = letter;
  Categories set = 0;
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (names[i] == name || (name.size() == 1 && names[i][0] == name[0]))
      set |= Categories{1} << i;
  return set;
}

bool is_numeric(char32_t code) {
  return is_in(code, numbers) || (code >= 0x11DE0 && code <= 0x11DE9) ||
         (code >= 0x16FF4 && code <= 0x16FF6);
}

void append_lower(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else if (code == 0x130) {
    out += "i\xCC\x87";
  } else {
    const auto& table = lower_table();
    const auto found = table.find(code);
    append(out, found == table.end() ? code : found->second);
  }
}

}  // namespace trireme::text
