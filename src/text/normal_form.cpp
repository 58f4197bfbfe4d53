// Normal forms: decomposition, the order of marks, composition.
// SPDX-License-Identifier: Apache-2.0
#include "text/normal_form.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>

#include "text/tables/read_runs.hpp"
#include "text/tables/tables.hpp"
#include "text/unicode.hpp"

namespace trireme::text {
namespace {

using Images = std::unordered_map<char32_t, std::u32string>;

// Hangul syllables are computed (Unicode 16, section 3.12).
constexpr char32_t s_base = 0xAC00, l_base = 0x1100, v_base = 0x1161, t_base = 0x11A7;
constexpr char32_t l_count = 19, v_count = 21, t_count = 28;
constexpr char32_t s_count = l_count * v_count * t_count;

struct Data {
  Images canonical, compatible;
  std::unordered_map<std::uint64_t, char32_t> composed;
  std::array<std::uint8_t, code_points_end> combining{};
};

std::uint64_t pair_key(char32_t a, char32_t b) { return std::uint64_t{a} << 32 | b; }

void read_longer(std::string_view text, Images& images, Data& data, bool composes) {
  char end = ' ';
  while (!text.empty()) {
    const char32_t code = tables::take_number(text, end);
    std::u32string image;
    while (end == '.') image += tables::take_number(text, end);
    const bool excluded = end == '!';
    if (excluded && !text.empty()) text.remove_prefix(1);
    if (composes && !excluded) data.composed[pair_key(image[0], image[1])] = code;
    images[code] = image;
  }
}

const Data& data() {
  static const auto all = [] {
    auto made = std::make_unique<Data>();
    const auto put_to = [](Images& images) {
      return [&images](char32_t code, char32_t image) { images[code] = {image}; };
    };
    tables::for_each_single(tables::canonical_singles, put_to(made->canonical));
    tables::for_each_single(tables::compatible_singles, put_to(made->compatible));
    read_longer(tables::canonical_pairs, made->canonical, *made, true);
    read_longer(tables::compatible_longer, made->compatible, *made, false);
    tables::fill_runs(tables::combining_runs, made->combining);
    return made;
  }();
  return *all;
}

void decompose(PlacedChar c, bool compatible, std::vector<PlacedChar>& out) {
  const auto put = [&](char32_t code) { out.push_back({code, c.begin, c.end}); };
  if (c.code < 0xA0) return put(c.code);
  if (c.code >= s_base && c.code < s_base + s_count) {
    const char32_t index = c.code - s_base;
    put(l_base + index / (v_count * t_count));
    put(v_base + index % (v_count * t_count) / t_count);
    if (index % t_count != 0) put(t_base + index % t_count);
    return;
  }
  const Data& all = data();
  auto found = all.canonical.find(c.code);
  bool has = found != all.canonical.end();
  if (!has && compatible) {
    found = all.compatible.find(c.code);
    has = found != all.compatible.end();
  }
  if (!has) return put(c.code);
  for (const char32_t part : found->second)
    decompose({part, c.begin, c.end}, compatible, out);
}

std::uint8_t combining(char32_t code) {
  return code < 0x300 ? 0 : data().combining[code];
}

void order_marks(std::vector<PlacedChar>& text) {
  for (std::size_t i = 0; i < text.size();) {
    if (combining(text[i].code) == 0) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && combining(text[end].code) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(i),
                     text.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const PlacedChar& a, const PlacedChar& b) {
                       return combining(a.code) < combining(b.code);
                     });
    i = end;
  }
}

// The character that two compose to, or 0.
char32_t composed(char32_t a, char32_t b) {
  if (a >= l_base && a < l_base + l_count && b >= v_base && b < v_base + v_count)
    return s_base + ((a - l_base) * v_count + (b - v_base)) * t_count;
  if (a >= s_base && a < s_base + s_count && (a - s_base) % t_count == 0 && b > t_base &&
      b < t_base + t_count)
    return a + (b - t_base);
  const auto& table = data().composed;
  const auto found = table.find(pair_key(a, b));
  return found == table.end() ? 0 : found->second;
}

std::vector<PlacedChar> compose(const std::vector<PlacedChar>& text) {
  std::vector<PlacedChar> out;
  std::size_t starter = 0;
  bool has_starter = false;
  for (const PlacedChar& c : text) {
    const int own = combining(c.code);
    if (has_starter) {
      // A mark between blocks when its class is not lower: what is last was put there.
      const bool adjacent = out.size() == starter + 1;
      const int last = adjacent ? -1 : combining(out.back().code);
      const char32_t both =
          adjacent || last < own ? composed(out[starter].code, c.code) : 0;
      if (both != 0) {
        out[starter].code = both;
        out[starter].begin = std::min(out[starter].begin, c.begin);
        out[starter].end = std::max(out[starter].end, c.end);
        continue;
      }
    }
    if (own == 0) {
      starter = out.size();
      has_starter = true;
    }
    out.push_back(c);
  }
  return out;
}

}  // namespace

std::vector<PlacedChar> normalized(const std::vector<PlacedChar>& text, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  std::vector<PlacedChar> out;
  out.reserve(text.size());
  for (const PlacedChar& c : text) decompose(c, compatible, out);
  order_marks(out);
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  return composes ? compose(out) : out;
}

bool may_change(char32_t code) { return code >= 0xA0; }

}  // namespace trireme::text
