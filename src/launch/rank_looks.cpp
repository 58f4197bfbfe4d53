// RankLooks: a list of texts, and a number for each rank.
// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_looks.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace trireme::launch {
namespace {

// As text: number of kinds, ranks, lengths of the kinds, kinds of the ranks, the kinds.
using Number = std::uint32_t;

void put(std::string& text, Number number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

Number RankLooks::kind_of(const std::string& look) {
  const auto [found, is_new] = numbers_.emplace(look, static_cast<Number>(looks_.size()));
  if (is_new) looks_.push_back(look);
  return found->second;
}

void RankLooks::add(const std::string& look) { kinds_.push_back(kind_of(look)); }

void RankLooks::append(const RankLooks& next) {
  std::vector<Number> here;
  for (const std::string& look : next.looks_) here.push_back(kind_of(look));
  for (const Number kind : next.kinds_) kinds_.push_back(here[kind]);
}

const std::string& RankLooks::of(int rank) const {
  return looks_[kinds_.at(static_cast<std::size_t>(rank))];
}

std::string RankLooks::text() const {
  std::string text;
  put(text, static_cast<Number>(looks_.size()));
  put(text, static_cast<Number>(kinds_.size()));
  for (const std::string& look : looks_) put(text, static_cast<Number>(look.size()));
  text.append(reinterpret_cast<const char*>(kinds_.data()),
              kinds_.size() * sizeof(Number));
  for (const std::string& look : looks_) text += look;
  return text;
}

RankLooks RankLooks::from_text(const std::string& text) {
  std::size_t at = 0;
  const auto take = [&] {
    require(text.size() - at >= sizeof(Number), "{} bytes are no looks of ranks",
            text.size());
    Number number = 0;
    std::memcpy(&number, text.data() + at, sizeof number);
    at += sizeof number;
    return number;
  };
  const Number looks = take(), ranks = take();
  require((text.size() - at) / sizeof(Number) >= std::size_t{looks} + ranks,
          "{} bytes are no looks of {} ranks", text.size(), ranks);
  std::vector<Number> lengths(looks);
  std::ranges::generate(lengths, take);
  RankLooks all;
  all.kinds_.resize(ranks);
  std::ranges::generate(all.kinds_, take);
  for (const Number kind : all.kinds_)
    require(kind < looks, "a rank looks like kind {} of {}", kind, looks);
  for (const Number length : lengths) {
    require(length <= text.size() - at, "a look of {} bytes in {}", length, text.size());
    all.kind_of(text.substr(at, length));
    at += length;
  }
  require(all.looks_.size() == looks, "a look comes twice");
  return all;
}

}  // namespace trireme::launch
