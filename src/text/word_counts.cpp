// Counts words: a part of the text for each thread, sums in shards by hash.
// SPDX-License-Identifier: Apache-2.0
#include "text/word_counts.hpp"

#include <utility>

#include "base/side_by_side.hpp"

namespace trireme::text {
namespace {

constexpr std::size_t part_bytes = std::size_t{1} << 20;

// Neither white space nor a part of a longer character.
bool is_ascii_sign(char c) { return c > 0x20 && c < 0x7F; }

}  // namespace

// A line end between two signs is a word by itself, whatever comes before and behind;
// with more white space around it, what ends the text would be cut otherwise.
std::vector<std::string_view> cut_between_words(std::string_view text,
                                                std::size_t bytes) {
  std::vector<std::string_view> parts;
  while (text.size() > bytes) {
    std::size_t at = text.find('\n', bytes);
    while (at != text.npos && at + 1 < text.size() &&
           !(at > 0 && is_ascii_sign(text[at - 1]) && is_ascii_sign(text[at + 1])))
      at = text.find('\n', at + 1);
    if (at == text.npos || at + 1 >= text.size()) break;
    parts.push_back(text.substr(0, at + 1));
    text.remove_prefix(at + 1);
  }
  parts.push_back(text);
  return parts;
}

WordCounts::WordCounts() : pattern_(known_splitter(gpt2_regex)) {}

std::int64_t WordCounts::add(std::vector<Document> documents, std::size_t threads) {
  std::vector<std::string> texts(documents.size());
  side_by_side(documents.size(), threads,
               [&](std::size_t i) { texts[i] = std::move(documents[i]).text(); });
  std::vector<std::string_view> parts;
  std::int64_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += std::ssize(text);
    for (const std::string_view part : cut_between_words(text, part_bytes))
      parts.push_back(part);
  }
  side_by_side(parts.size(), threads, [&](std::size_t i) { count(parts[i]); });
  return bytes;
}

void WordCounts::count(std::string_view part) {
  std::unordered_map<std::string_view, std::int64_t> own;
  for_each_match(*pattern_, part, [&](const Range& match) {
    ++own[part.substr(match.begin, match.size())];
  });
  std::array<std::vector<std::pair<std::string_view, std::int64_t>>, 256> by_shard;
  for (const auto& word : own)
    by_shard[Hash()(word.first) % by_shard.size()].push_back(word);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (by_shard[s].empty()) continue;
    const std::lock_guard lock(shards_[s].mutex);
    auto& counts = shards_[s].counts;
    for (const auto& [word, times] : by_shard[s]) {
      const auto found = counts.find(word);
      if (found != counts.end())
        found->second += times;
      else
        counts.emplace(word, times);
    }
  }
}

std::int64_t WordCounts::words() const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) sum += std::ssize(shard.counts);
  return sum;
}

void WordCounts::for_each(
    const std::function<void(std::string_view, std::int64_t)>& take) const {
  for (const Shard& shard : shards_)
    for (const auto& [word, count] : shard.counts) take(word, count);
}

}  // namespace trireme::text
