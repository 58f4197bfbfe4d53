// BpeTrainer: learns the merges of a byte-level BPE from text, as the reference does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

class WordCounts;

struct BpeTraining {
  std::int64_t size = 0;           // tokens of the vocabulary, if the text yields them
  std::int64_t min_frequency = 0;  // a pair that is met less often is not merged
  std::string end_token;           // the one special token; its id is 0
};

// Counts words of texts, then merges the pair that is met most often, the one of the
// lowest ids among those, until the vocabulary is full or no pair is left. The file that
// comes out is that of the `tokenizers` library's BpeTrainer (0.23) with the ByteLevel
// alphabet and pre-tokenizer, byte for byte.
class BpeTrainer {
 public:
  // Words are counted by `threads`, merges are learned by one. The file does not depend
  // on them.
  explicit BpeTrainer(int threads = 1);
  ~BpeTrainer();
  BpeTrainer(const BpeTrainer&) = delete;
  BpeTrainer& operator=(const BpeTrainer&) = delete;

  // Takes a document of valid UTF-8. Words are counted when enough text has come
  // together, and by count().
  void add(std::string document);
  void count();
  // Different words in what has been counted.
  std::int64_t words() const;
  // Counts the rest, and gives the text of tokenizer.json. Cost: about the length of all
  // different words, times the logarithm of the pairs.
  std::string train(const BpeTraining& training);

 private:
  std::unique_ptr<WordCounts> counts_;
  std::vector<std::string> documents_;  // that are not counted yet
  std::size_t bytes_ = 0, threads_;
};

}  // namespace trireme::text
