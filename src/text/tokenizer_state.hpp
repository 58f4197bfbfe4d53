// TokenizerState: the stages of a tokenizer, whatever kind of file they were read from.
// SPDX-License-Identifier: Apache-2.0
// Private to the text module.
#pragma once

#include <memory>
#include <string>

#include "text/added_tokens.hpp"
#include "text/stages.hpp"

namespace trireme::text {

struct TokenizerState {
  std::string folder, digest;  // folder: where it was read from, or empty
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  AddedTokens added;
  bool joins_bytes = false;  // the decoder reads runs of <0x41> as a whole
};

// Of a file's bytes; `source` names it. All throw Error(bad_content) for what is wrong
// or not understood.
TokenizerState state_of_json(std::string_view json, const std::string& source);
// SentencePiece's model file: BPE or Unigram. Bytes of the protobuf encoding.
TokenizerState state_of_sentencepiece(std::string_view bytes, const std::string& source);
// Lines of base64 and rank. `words` is the JSON text of the file beside it that gives
// pattern and special tokens, or empty: then those of encodings that have the file's name
// and size.
TokenizerState state_of_tiktoken(std::string_view lines, const std::string& source,
                                 const std::string& words);
// Whether bytes look like lines of base64 and rank: some files of that kind end in
// .model.
bool is_tiktoken(std::string_view bytes);

}  // namespace trireme::text
