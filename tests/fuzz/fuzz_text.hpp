// What the fuzzing targets of tokenizers do with one that was accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace trireme::fuzz {

// Its ids are tokens (those that a template adds need not be), offsets do not change
// them, and streaming does not fail.
inline void use_tokenizer(const text::Tokenizer& tokenizer, const std::string& input) {
  const std::string text = text::replace_invalid(input);
  const auto ids = unless_refused(
      [&] { return tokenizer.encode(text, text::SpecialTokens::leave_out); });
  if (!ids) return;
  for (const std::int32_t id : *ids)
    if (id < 0 || id >= tokenizer.vocabulary() || tokenizer.token_of(id) == nullptr)
      finding(format("the id {} is no token's", id));
  tokenizer.decode(*ids, true);
  text::StreamDecoder stream(tokenizer, false);
  for (const std::int32_t id : *ids) stream.put(id);
  stream.finish();
  const std::vector<std::int32_t> all = tokenizer.encode(text, text::SpecialTokens::add);
  if (tokenizer.encode_with_offsets(text, text::SpecialTokens::add).ids != all)
    finding("offsets change the ids");
  unless_refused([&] { return tokenizer.decode(all, true); });
}

}  // namespace trireme::fuzz
