// Fuzzes tokenizer.json: what is accepted encodes and decodes a text.
// SPDX-License-Identifier: Apache-2.0
#include "fuzz_text.hpp"

namespace trireme {
namespace {

// A tokenizer.json; after a line `--` the text.
void check(std::string_view input) {
  const auto parts = fuzz::split_at(input, "--");
  const auto tokenizer = fuzz::unless_refused(
      [&] { return text::Tokenizer(parts.first, "tokenizer.json"); });
  if (tokenizer) fuzz::use_tokenizer(*tokenizer, parts.second);
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
