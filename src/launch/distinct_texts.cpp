// DistinctTexts: a list of texts, and an index into it for each rank.
// SPDX-License-Identifier: Apache-2.0
#include "launch/distinct_texts.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace trireme::launch {
namespace {

// The serialised form holds: number of texts, number of ranks, length of each text, index
// of each rank, the texts.
using Number = std::uint32_t;

void put(std::string& text, Number number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

Number DistinctTexts::index_of(const std::string& text) {
  const auto [found, is_new] = lookup_.emplace(text, static_cast<Number>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return found->second;
}

void DistinctTexts::add(const std::string& text) { indices_.push_back(index_of(text)); }

void DistinctTexts::append(const DistinctTexts& later) {
  std::vector<Number> here;
  for (const std::string& text : later.texts_) here.push_back(index_of(text));
  for (const Number index : later.indices_) indices_.push_back(here[index]);
}

const std::string& DistinctTexts::at(int rank) const {
  return texts_[indices_.at(static_cast<std::size_t>(rank))];
}

std::string DistinctTexts::text() const {
  std::string text;
  put(text, static_cast<Number>(texts_.size()));
  put(text, static_cast<Number>(indices_.size()));
  for (const std::string& one : texts_) put(text, static_cast<Number>(one.size()));
  text.append(reinterpret_cast<const char*>(indices_.data()),
              indices_.size() * sizeof(Number));
  for (const std::string& one : texts_) text += one;
  return text;
}

DistinctTexts DistinctTexts::from_text(const std::string& text) {
  std::size_t at = 0;
  const auto take = [&] {
    require(text.size() - at >= sizeof(Number), "{} bytes are no texts of ranks",
            text.size());
    Number number = 0;
    std::memcpy(&number, text.data() + at, sizeof number);
    at += sizeof number;
    return number;
  };
  const Number texts = take(), ranks = take();
  require((text.size() - at) / sizeof(Number) >= std::size_t{texts} + ranks,
          "{} bytes are no texts of {} ranks", text.size(), ranks);
  std::vector<Number> lengths(texts);
  std::ranges::generate(lengths, take);
  DistinctTexts all;
  all.indices_.resize(ranks);
  std::ranges::generate(all.indices_, take);
  for (const Number index : all.indices_)
    require(index < texts, "a rank has text {} of {}", index, texts);
  for (const Number length : lengths) {
    require(length <= text.size() - at, "a text of {} bytes in {}", length, text.size());
    all.index_of(text.substr(at, length));
    at += length;
  }
  require(all.texts_.size() == texts, "a text comes twice");
  return all;
}

}  // namespace trireme::launch
