// Fuzzes headers of safetensors files, and the index of a folder of them.
// SPDX-License-Identifier: Apache-2.0
// What is accepted is planned again from its own tensors, and must take as many bytes.
#include "fuzz.hpp"
#include "io/safetensors_folder.hpp"

namespace trireme {
namespace {

std::string with_length(std::string_view header) {
  std::string out;
  for (int i = 0; i < 8; ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  return out.append(header);
}

// An input is a header and, after a line `--`, the bytes of the data; after a line
// `index` an index whose only shard is that file, `shard`. `raw` alone on the first line:
// the length is part of the input.
void check(std::string_view input) {
  const auto [file, index] = fuzz::split_at(input, "index");
  auto [head, data] = fuzz::split_at(file, "--");
  if (!index.empty() && data.ends_with('\n')) data.pop_back();  // of the line `index`
  const bool raw = head.starts_with("raw\n");
  const std::string name = index.empty() ? "model.safetensors" : "shard";
  fuzz::make_directory("folder");
  fuzz::make_directory("indexed");
  const std::string folder = index.empty() ? "folder" : "indexed";
  fuzz::put(folder + "/" + name, (raw ? head.substr(4) : with_length(head)) + data);
  if (!index.empty()) fuzz::put("indexed/model.safetensors.index.json", index);
  const auto read = fuzz::unless_refused([&] {
    io::SafetensorsFolder tensors(fuzz::folder() + "/" + folder);
    std::vector<io::SafetensorsTensor> all;
    for (const auto& each : tensors.tensors()) all.push_back(each.entry);
    return all;
  });
  if (!read) return;
  std::int64_t bytes = 0;
  for (const auto& tensor : *read) bytes += tensor.end - tensor.begin;
  const io::SafetensorsPlan plan(*read);
  fuzz::require_equal(
      "the bytes of all tensors", std::to_string(bytes),
      std::to_string(plan.bytes() - static_cast<std::int64_t>(plan.head().size())));
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
