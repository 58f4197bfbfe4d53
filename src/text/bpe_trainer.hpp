// BpeTrainer: learns the merges of a byte-level BPE from text, as the reference does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/corpus.hpp"

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

  // Takes a document. Words are counted when enough text has come together, and by
  // count(), which throw what Document::text() does.
  void add(Document document);
  void count();
  // In what has been counted: different words, and bytes of text.
  std::int64_t words() const;
  std::int64_t text_bytes() const { return text_bytes_; }
  // Counts the rest, and gives the text of tokenizer.json. Cost: about the length of all
  // different words, times the logarithm of the pairs.
  std::string train(const BpeTraining& training);

 private:
  std::unique_ptr<WordCounts> counts_;
  std::vector<Document> documents_;  // that are not counted yet
  std::size_t bytes_ = 0, threads_;
  std::int64_t text_bytes_ = 0;
};

}  // namespace trireme::text
