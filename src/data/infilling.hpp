// Fill-in-the-middle: documents whose middle comes last, behind what stands around it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/sample_source.hpp"
#include "text/tokenizer.hpp"

namespace trireme::data {

// A share `rate` of documents is cut at two characters into prefix, middle and suffix and
// put together anew: <pre> prefix <suf> suffix <mid> middle (PSM), or, a share `spm` of
// those, <pre> <suf> suffix <mid> prefix middle (SPM). (Bavarian et al., 2022; the orders
// are Megatron-LM's.)
class Infilling {
 public:
  // Throws Error(bad_content) where the tokenizer lacks one of the three tokens. It
  // outlives this.
  Infilling(const io::InfillingConfig& config, const text::Tokenizer& tokenizer,
            std::uint64_t seed);

  // The tokens of a document, its end token left out, or of the part of one that is in a
  // sample: as they are, or put together anew. Never more than before: where the three
  // tokens, or text that is cut into tokens anew, need room, the suffix loses its end,
  // then the prefix its beginning; the document stays as it is where that is not enough.
  // Characters are those of the decoded text, and tokens where text does not give the
  // same tokens again, as at the borders of a sample that cut a character.
  //   sample, place: of its first token, which with the seed decide all
  std::vector<std::int32_t> apply(std::span<const std::int32_t> document,
                                  std::int64_t sample, std::int64_t place) const;

 private:
  struct Parts {
    std::vector<std::int32_t> prefix, middle, suffix;
  };
  // Cuts at two of the places between characters, or tokens, that are drawn.
  Parts cut(std::span<const std::int32_t> document, std::uint64_t first,
            std::uint64_t second) const;
  bool cut_text(std::span<const std::int32_t> document, std::uint64_t first,
                std::uint64_t second, Parts& parts) const;

  double rate_, spm_;
  std::int32_t pre_ = 0, suf_ = 0, mid_ = 0;
  const text::Tokenizer& tokenizer_;
  std::uint64_t seed_;
};

// The same source with its documents infilled: a function of (seed, sample), so that
// every mesh and every epoch has the same. Throws as Infilling, and Error(bad_content)
// where nothing says which token ends a document, or samples are marked otherwise.
std::unique_ptr<io::SampleSource> infilled(
    std::unique_ptr<io::SampleSource> source, const io::SourceConfig& config,
    std::shared_ptr<const text::Tokenizer> tokenizer);

}  // namespace trireme::data
