// BpeTrainer: learns the merges of a byte-level BPE from text, as the reference does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/pattern.hpp"

namespace trireme::text {

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
  BpeTrainer();
  // Counts the words of a document of valid UTF-8.
  void add(std::string_view document);
  std::int64_t words() const { return static_cast<std::int64_t>(counts_.size()); }
  // The text of tokenizer.json. Cost: about the length of all different words, times the
  // logarithm of the pairs.
  std::string train(const BpeTraining& training) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unique_ptr<Pattern> pattern_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace trireme::text
