// Extended grapheme clusters by the rules of Unicode Standard Annex 29.
// SPDX-License-Identifier: Apache-2.0
#include "text/clusters.hpp"

#include <array>
#include <memory>

#include "text/tables/read_runs.hpp"
#include "text/tables/tables.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// The order is that of make_tables.py.
enum Break : std::uint8_t {
  other,
  cr,
  lf,
  control,
  extend,
  zwj,
  regional,
  prepend,
  spacing,
  hangul_l,
  hangul_v,  //
  hangul_t,
  hangul_lv,
  hangul_lvt
};
constexpr std::uint8_t break_mask = 0x0F, pictograph = 0x10, conjunct_mask = 0x60;
constexpr std::uint8_t consonant = 0x20, linker = 0x40, conjunct_extend = 0x60;

std::uint8_t value_of(char32_t code) {
  using Table = std::array<std::uint8_t, code_points_end>;
  static const auto table = [] {
    auto all = std::make_unique<Table>();
    tables::fill_runs(tables::cluster_runs, *all);
    return all;
  }();
  return (*table)[code];
}

// What rules that look back further than one character need.
struct State {
  bool after_pictograph = false;  // a pictograph, then only Extend
  bool pictograph_zwj = false;    // ... and a ZWJ at last
  bool after_consonant = false;   // a consonant, then only Extend and Linker
  bool linked = false;            // ... with a Linker among them
  bool odd_regional = false;      // an odd number of regional indicators

  void add(std::uint8_t value) {
    const auto kind = value & break_mask;
    pictograph_zwj = after_pictograph && kind == zwj;
    after_pictograph = (value & pictograph) != 0 || (after_pictograph && kind == extend);
    const auto conjunct = value & conjunct_mask;
    if (conjunct == consonant) {
      after_consonant = true;
      linked = false;
    } else if (conjunct == linker) {
      linked = after_consonant;
    } else if (conjunct != conjunct_extend) {
      after_consonant = linked = false;
    }
    odd_regional = kind == regional && !odd_regional;
  }
};

bool joins(std::uint8_t before, std::uint8_t after, const State& state) {
  const auto a = before & break_mask, b = after & break_mask;
  if (a == cr && b == lf) return true;
  if (a == cr || a == lf || a == control || b == cr || b == lf || b == control)
    return false;
  if (a == hangul_l &&
      (b == hangul_l || b == hangul_v || b == hangul_lv || b == hangul_lvt))
    return true;
  if ((a == hangul_lv || a == hangul_v) && (b == hangul_v || b == hangul_t)) return true;
  if ((a == hangul_lvt || a == hangul_t) && b == hangul_t) return true;
  if (b == extend || b == zwj || b == spacing || a == prepend) return true;
  if (state.linked && (after & conjunct_mask) == consonant) return true;
  if (state.pictograph_zwj && (after & pictograph) != 0) return true;
  return a == regional && b == regional && state.odd_regional;
}

std::size_t last_character(std::string_view text, std::size_t end) {
  while ((static_cast<unsigned char>(text[--end]) & 0xC0) == 0x80) {
  }
  return end;
}

// What joins() asks for of the text before its last character, without conjuncts.
State state_before(std::string_view text, std::uint8_t last, std::uint8_t after) {
  const auto value_at = [&](std::size_t at) {
    return value_of(code_point_at(text, at).value);
  };
  State state;
  if ((last & break_mask) == zwj && (after & pictograph) != 0) {
    std::size_t at = last_character(text, text.size());
    while (at > 0) {
      at = last_character(text, at);
      const std::uint8_t value = value_at(at);
      state.pictograph_zwj = (value & pictograph) != 0;
      if ((value & break_mask) != extend) break;
    }
  }
  if ((last & break_mask) == regional && (after & break_mask) == regional)
    for (std::size_t at = text.size(); at > 0;) {
      at = last_character(text, at);
      if ((value_at(at) & break_mask) != regional) break;
      state.odd_regional = !state.odd_regional;
    }
  return state;
}

}  // namespace

bool goes_on(std::string_view text, std::size_t at) {
  if (at == 0 || at >= text.size()) return false;
  const std::uint8_t last = value_of(code_point_at(text, last_character(text, at)).value);
  const std::uint8_t after = value_of(code_point_at(text, at).value);
  return joins(last, after, state_before(text.substr(0, at), last, after));
}

std::size_t cluster_end(std::string_view text, std::size_t begin) {
  CodePoint c = code_point_at(text, begin);
  std::uint8_t before = value_of(c.value);
  State state;
  state.add(before);
  std::size_t at = begin + c.bytes;
  while (at < text.size()) {
    c = code_point_at(text, at);
    const std::uint8_t after = value_of(c.value);
    if (!joins(before, after, state)) break;
    state.add(after);
    before = after;
    at += c.bytes;
  }
  return at;
}

}  // namespace trireme::text
