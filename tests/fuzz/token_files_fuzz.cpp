// Fuzzes token files of Megatron-LM and llm.c: what is accepted can be read to its end.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "fuzz.hpp"
#include "io/sample_source.hpp"

namespace trireme {
namespace {

constexpr std::int64_t sequence = 2, vocabulary = 50;

void read_all(io::SourceKind kind, const std::string& path) {
  const auto source = fuzz::unless_refused([&] {
    return io::open_source(
        {.kind = kind, .paths = {path}, .sequence = sequence, .vocabulary = vocabulary});
  });
  if (!source) return;
  std::vector<std::int32_t> tokens(sequence + 1);
  for (std::int64_t i = 0; i < (*source)->windows(); ++i) {
    const bool read = fuzz::unless_refused([&] {
                        (*source)->sample(i, tokens);
                        return true;
                      }).has_value();
    if (!read) return;
    for (const std::int32_t token : tokens)
      if (token != io::ignore_index && (token < 0 || token >= vocabulary))
        fuzz::finding(format("token {} of a vocabulary of {}", token, vocabulary));
  }
}

// The index of a pair; after a line `--` its tokens. The same bytes are a file of llm.c.
void check(std::string_view input) {
  auto [index, tokens] = fuzz::split_at(input, "--");
  if (index.ends_with('\n')) index.pop_back();  // the line end before the mark
  const std::string path = fuzz::put("m.idx", index);
  fuzz::put("m.bin", tokens);
  read_all(io::SourceKind::megatron, path);
  read_all(io::SourceKind::llmc, fuzz::put("l.bin", input));
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
