// What the fuzzing targets of tokenizers do with one that was accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace trireme::fuzz {

// Its ids are tokens, offsets do not change them, and streaming does not fail.
inline void use_tokenizer(const text::Tokenizer& tokenizer, const std::string& input) {
  const std::string text = text::replace_invalid(input);
  const auto ids = unless_refused([&] { return tokenizer.encode(text, true); });
  if (!ids) return;
  for (const std::int32_t id : *ids)
    if (id < 0 || id >= tokenizer.vocabulary() || tokenizer.token_of(id) == nullptr)
      finding(format("the id {} is no token's", id));
  const text::Encoding encoding = tokenizer.encode_with_offsets(text, true);
  if (encoding.ids != *ids) finding("offsets change the ids");
  tokenizer.decode(*ids, true);
  text::StreamDecoder stream(tokenizer, false);
  for (const std::int32_t id : *ids) stream.put(id);
  stream.finish();
}

}  // namespace trireme::fuzz
