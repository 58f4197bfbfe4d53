// Byte-pair encoding (Sennrich et al. 2016) as tokenizer.json describes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "text/merge_table.hpp"
#include "text/stages.hpp"
#include "text/token_table.hpp"
#include "text/workspace.hpp"

namespace trireme::text {

// Two tokens that become one.
struct RankedMerge {
  std::int32_t left, right;
  Merge merge;
};

// What a file says of a model.
struct BpeConfig {
  TokenTable vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<RankedMerge> ranked;  // where merges follow from the vocabulary
  TokenTable whole;                 // pieces that are one token as they stand
  std::optional<std::string> unknown;
  std::string prefix, suffix;  // of all but a word's first character; of its last
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  bool byte_level = false;  // the pre-tokenizer ends by turning bytes to letters
};

class Bpe final : public Model {
 public:
  // Throws Error(bad_content) through `node` for merges of what is not in the vocabulary.
  Bpe(BpeConfig config, const ConfigNode& node);

  // Cost: O(n log n) in the bytes of a piece.
  void encode(std::string_view piece, std::vector<Token>& out,
              Workspace& workspace) const override;
  void encode_all(const Pieces& pieces, std::vector<std::int32_t>& ids,
                  Workspace& workspace) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return config_.vocabulary.id_of(token);
  }
  const std::string* token_of(std::int32_t id) const override {
    return config_.vocabulary.token_of(id);
  }
  std::int64_t size() const override {
    return static_cast<std::int64_t>(config_.vocabulary.size());
  }
  std::int64_t end() const override {
    return config_.vocabulary.highest() + std::int64_t{1};
  }
  bool takes_bytes() const override { return bytes_; }

 private:
  void add_merges(const ConfigNode& node);
  void encode_part(std::string_view part, std::vector<Token>& out,
                   Workspace& workspace) const;
  void encode_word(std::string_view word, std::vector<Token>& out,
                   Workspace& workspace) const;
  void add_bytes(std::string_view word, std::vector<Symbol>& symbols) const;
  void add_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  bool add_fallback(std::string_view character, std::vector<Symbol>& symbols) const;
  // Merges the pair of the lowest rank, the leftmost of those, until there is none; a
  // symbol that was merged into the one before it gets previous = -2. By a heap, or,
  // where words are short, by looking through all ranks; `bytes` has the first pairs
  // where symbols are single bytes, else it is empty.
  void merge_by_heap(Workspace& workspace) const;
  void merge_by_scan(std::string_view bytes, Workspace& workspace) const;
  void take_over(Workspace& workspace) const;

  BpeConfig config_;
  MergeTable merges_;
  std::int32_t unknown_ = -1;
  bool bytes_ = false;
  bool scans_ = false;  // a merge is known by what comes out, so that none is out of date
  bool cuts_ = false;   // no merge crosses the beginning of a word that a mark begins
  std::array<std::int32_t, 256> byte_ids_{};      // of letters, where bytes_
  std::array<std::int32_t, 256> fallback_ids_{};  // of <0x00> to <0xFF>
  std::vector<Merge> byte_merges_;  // of two bytes, where bytes_ and each has a letter
};

// Formats without a list of merges let any two neighbours merge to what has a rank: all
// cuts of each token in two that are in the vocabulary, each with the token's rank.
// `ranks` holds ids and their ranks. Throws Error(bad_content) naming `source` for tokens
// of more than 1,024 bytes.
std::vector<RankedMerge> merges_of_cuts(
    const TokenTable& vocabulary,
    const std::vector<std::pair<std::int32_t, std::int32_t>>& ranks,
    const std::string& source);

std::unique_ptr<Model> make_bpe(const ConfigNode& node, bool byte_level);

}  // namespace trireme::text
