// Fuzzes manifests of checkpoints that have files behind them.
// SPDX-License-Identifier: Apache-2.0
// The accepted ones are read and written again.
#include <array>
#include <fstream>
#include <functional>
#include <vector>

#include "fuzz.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_index.hpp"
#include "io/digest.hpp"
#include "io/hdf5_file.hpp"
#include "support/format1.hpp"

namespace trireme {
namespace {

constexpr std::int64_t most_elements = 1 << 16;
constexpr std::array<float, 8> weights = {1, 2, 3, 4, 5, 6, 7, 8};

// What an input calls by a name, for it depends on the version of HDF5.
struct Word {
  std::string_view name;
  std::string value;
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TensorView view_of_weights() {
  return {const_cast<float*>(weights.data()), DType::f32, {4, 2}};
}

// A checkpoint of one shard with one tensor, but for its manifest.
std::vector<Word> make_checkpoint(const std::string& directory) {
  const std::string shard = directory + "/shard-00000.h5";
  const std::string whole = directory + "/checkpoint.h5";
  io::Hdf5File file(shard, io::Hdf5File::Mode::create);
  file.write("model/weight", view_of_weights());
  const std::int64_t offset = file.offset("model/weight");
  file.close();
  io::Hdf5File map(whole, io::Hdf5File::Mode::create);
  map.create_virtual("model/weight", DType::f32, {4, 2},
                     {{"shard-00000.h5", "model/weight", {0, 0}, {4, 2}}});
  map.close();
  const std::string bytes = content(shard), others = content(whole);
  const auto at = static_cast<std::size_t>(offset);
  const std::string frame = bytes.substr(0, at) + bytes.substr(at + sizeof weights);
  return {{"SHARD_BYTES", std::to_string(bytes.size())},
          {"SHARD_DIGEST", io::digest_of(bytes)},
          {"SHARD_FRAME", io::digest_of(frame)},
          {"WHOLE_BYTES", std::to_string(others.size())},
          {"WHOLE_DIGEST", io::digest_of(others)},
          {"BOX_OFFSET", std::to_string(offset)},
          {"BOX_DIGEST", io::digest_of(bytes.substr(at, sizeof weights))}};
}

struct Checkpoint {
  std::string directory = fuzz::folder() + "/checkpoint";
  std::vector<Word> words;

  Checkpoint() {
    fuzz::make_directory("checkpoint");
    words = make_checkpoint(directory);
  }
};

// The manifest ends with a digest of everything before it, which a mutation would seldom
// find.
std::string sealed(std::string text, const std::vector<Word>& words) {
  for (const auto& [name, value] : words)
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at))
      text.replace(at, name.size(), value);
  const std::string digest = io::digest_of(text);
  return text + ",\n \"digest\": \"" + digest + "\"\n}\n";
}

void read_tensors(const std::string& directory) {
  const io::CheckpointReader reader(directory);
  for (const auto& tensor : reader.tensors()) {
    const std::int64_t elements = tensor.shape.elements();
    if (elements > most_elements) continue;
    Shape begin = tensor.shape;
    for (int i = 0; i < begin.rank(); ++i) begin[i] = 0;
    std::vector<double> memory(static_cast<std::size_t>(elements));
    const TensorView out(memory.data(), tensor.dtype, tensor.shape);
    reader.read(tensor.path, tensor.shape, begin, out);
    reader.digest(tensor.path);
  }
}

// What the manifest says as an index, and an index of which one byte is another.
void check_index(const io::Manifest& manifest, const std::string& directory) {
  const std::string index = io::index_bytes(manifest);
  io::Manifest same;
  io::parse_index(directory, index, same);
  fuzz::require_equal("the index", index, io::index_bytes(same));
  const auto draw = std::hash<std::string>()(index);
  std::string other = index;
  other[draw % other.size()] = static_cast<char>(draw >> 40);
  fuzz::unless_refused([&] {
    io::Manifest read;
    io::parse_index(directory, other, read);
    io::require_whole(directory, read);
    return true;
  });
}

// An input is a manifest without the line of its digest and the closing brace.
void check(std::string_view input) {
  static const Checkpoint checkpoint;
  const std::string file = "checkpoint/manifest.json";
  fuzz::put(file, sealed(std::string(input), checkpoint.words));
  const auto manifest =
      fuzz::unless_refused([&] { return io::read_manifest(checkpoint.directory); });
  if (!manifest) return;
  fuzz::unless_refused([&] {
    read_tensors(checkpoint.directory);
    return true;
  });
  const std::string text = test::format1_text(*manifest);
  fuzz::put(file, text);
  fuzz::require_equal("the manifest", text,
                      test::format1_text(io::read_manifest(checkpoint.directory)));
  check_index(*manifest, checkpoint.directory);
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
