// Fuzzes SentencePiece model files: what is accepted encodes and decodes a text.
// SPDX-License-Identifier: Apache-2.0
#include "fuzz_text.hpp"
#include "text/tokenizer_state.hpp"

namespace trireme {
namespace {

// A model in the protobuf encoding; after a line `--` the text.
void check(std::string_view input) {
  auto [model, text] = fuzz::split_at(input, "--");
  if (model.ends_with('\n')) model.pop_back();  // the line end before the mark
  const auto tokenizer = fuzz::unless_refused([&bytes = model] {
    return text::Tokenizer(text::state_of_sentencepiece(bytes, "m.model"));
  });
  if (tokenizer) fuzz::use_tokenizer(*tokenizer, text);
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
