// RankList: places in it, and its texts.
// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_list.hpp"

#include <array>
#include <sstream>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/number.hpp"

namespace trireme::comm {

RankList RankList::line(int first, int count, int stride) {
  return RankList{first, count, stride, 1, 0}.normal();
}

RankList RankList::from_ranks(std::span<const int> ranks) {
  require(!ranks.empty(), "a group of no ranks");
  const auto count = static_cast<int>(ranks.size());
  const int stride = count > 1 ? ranks[1] - ranks[0] : 1;
  int inner = 1;
  while (inner < count &&
         ranks[static_cast<std::size_t>(inner)] == ranks[0] + inner * stride)
    ++inner;
  RankList list{ranks[0], inner, stride, count / inner, 0};
  if (list.outer > 1)
    list.outer_stride = ranks[static_cast<std::size_t>(inner)] - ranks[0];
  bool fits = list.size() == count;
  for (int i = 0; i < count && fits; ++i)
    fits = list.rank(i) == ranks[static_cast<std::size_t>(i)];
  require(fits, "ranks {} are no part of a mesh", ranks_text(ranks));
  return list.normal();
}

int RankList::index_of(int world_rank) const {
  const int distance = world_rank - first;
  if (distance < 0) return -1;
  int in = 0, out = 0;
  if (outer == 1) {
    in = distance / inner_stride;
  } else if (inner_stride > outer_stride) {
    in = distance / inner_stride;
    out = distance % inner_stride / outer_stride;
  } else {
    out = distance / outer_stride;
    in = distance % outer_stride / inner_stride;
  }
  if (in >= inner || out >= outer) return -1;
  const int index = out * inner + in;
  return rank(index) == world_rank ? index : -1;
}

RankList RankList::normal() const {
  RankList list = *this;
  if (list.inner == 1) {
    list.inner = list.outer;
    list.inner_stride = list.outer_stride;
    list.outer = 1;
  } else if (list.outer > 1 && list.outer_stride == list.inner * list.inner_stride) {
    list.inner *= list.outer;
    list.outer = 1;
  }
  if (list.outer == 1) list.outer_stride = 0;
  if (list.inner == 1) list.inner_stride = 1;
  return list;
}

std::string text_of(const RankList& r) {
  return format("{},{},{},{},{}", r.first, r.inner, r.inner_stride, r.outer,
                r.outer_stride);
}

RankList rank_list_from(const std::string& text) {
  std::array<int, 5> numbers{};
  std::istringstream in(text);
  std::string word;
  for (int& number : numbers) {
    require(static_cast<bool>(std::getline(in, word, ',')), "'{}' is no list of ranks",
            text);
    number = parse_number<int>(word).value();
  }
  const RankList list{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  constexpr int most = 1 << 24;
  const bool fits = list.first >= 0 && list.first < most && list.inner >= 1 &&
                    list.outer >= 1 && list.inner < most && list.outer < most &&
                    list.inner_stride >= 1 && list.inner_stride < most &&
                    (list.outer == 1 ? list.outer_stride == 0 : list.outer_stride >= 1) &&
                    list.outer_stride < most &&
                    static_cast<std::int64_t>(list.inner) * list.outer < most &&
                    list.first +
                            static_cast<std::int64_t>(list.inner) * list.inner_stride +
                            static_cast<std::int64_t>(list.outer) * list.outer_stride <
                        most;
  require(fits && !std::getline(in, word, ','), "'{}' is no list of ranks", text);
  return list;
}

std::string ranks_text(std::span<const int> ranks) {
  constexpr int most = 12;
  std::string text;
  int parts = 0;
  for (std::size_t i = 0; i < ranks.size(); ++parts) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    if (parts == most) return text + format(" and {} more", ranks.size() - i);
    text += (i ? ", " : "") + std::to_string(ranks[i]);
    if (j > i) text += (j == i + 1 ? ", " : "-") + std::to_string(ranks[j]);
    i = j + 1;
  }
  return text;
}

std::string ranks_text(const RankList& ranks) {
  if (ranks.outer == 1 && ranks.inner > 2 && ranks.inner_stride == 1)
    return format("{}-{}", ranks.first, ranks.rank(ranks.size() - 1));
  constexpr int most = 64;  // enough for the words
  std::vector<int> all;
  for (int i = 0; i < ranks.size() && i < most; ++i) all.push_back(ranks.rank(i));
  const std::string text = ranks_text(all);
  const int left = ranks.size() - static_cast<int>(all.size());
  if (left == 0) return text;
  const auto cut = text.find(" and ");
  return text.substr(0, cut) + format(" and more, {} in all", ranks.size());
}

}  // namespace trireme::comm
