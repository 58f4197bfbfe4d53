// WordCounts: how often each word is met, counted by several threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/corpus.hpp"
#include "text/pattern.hpp"

namespace trireme::text {

// Words are those into which GPT-2 cuts text. Sums do not depend on who counts first.
class WordCounts {
 public:
  WordCounts();

  // Counts the words of documents, long ones in parts; returns the bytes of their texts.
  // Throws what Document::text() does, of the first document where it does.
  std::int64_t add(std::vector<Document> documents, std::size_t threads);
  std::int64_t words() const;
  // In no order.
  void for_each(const std::function<void(std::string_view, std::int64_t)>& take) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  // Words with some hashes, so that threads seldom wait for each other.
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts;
  };

  void count(std::string_view part);

  std::unique_ptr<Pattern> pattern_;
  std::array<Shard, 256> shards_;
};

// Cuts text into parts of about `bytes`, where its words are those of the parts: behind a
// line end that is white space by itself.
std::vector<std::string_view> cut_between_words(std::string_view text, std::size_t bytes);

}  // namespace trireme::text
