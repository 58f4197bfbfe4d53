// The files that make shards one checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_complete.hpp"

#include <cerrno>
#include <map>
#include <utility>

#include "base/system_reason.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::io {
namespace {

// One piece for each dataset of a shard.
std::vector<Hdf5File::Piece> pieces(const Manifest& manifest, std::size_t tensor) {
  std::vector<Hdf5File::Piece> all;
  std::pair<std::uint32_t, std::uint32_t> before;
  for (std::size_t i = 0; i < manifest.boxes.count(tensor); ++i) {
    const BoxRecord box = manifest.boxes.get(tensor, i);
    const std::pair here(box.file, box.dataset);
    if (i > 0 && here == before) {
      all.back().more.emplace_back(box.begin, box.extent);
      continue;
    }
    before = here;
    all.push_back({manifest.files[box.file].name,
                   dataset_name(manifest.tensors[tensor].path, box.dataset), box.begin,
                   box.extent});
  }
  return all;
}

// Writes head and records one after the other: together they may be large.
FileEntry write_index(const Directory& folder, const Manifest& manifest) {
  const std::string head = index_head(manifest);
  const std::string& records = manifest.boxes.bytes();
  FileEntry entry{index_name, static_cast<std::int64_t>(head.size() + records.size()), "",
                  ""};
  require(entry.bytes <= index_limit_bytes, Status::resources,
          "{}: the index of {} boxes would have {} bytes, and at most {} can be read: "
          "shard over fewer ranks (parallel.sharding_strategy = \"HYBRID_SHARD\"); the "
          "checkpoint before this one stands",
          folder.path_of(index_name), manifest.boxes.boxes(), entry.bytes,
          index_limit_bytes);
  Descriptor file = folder.create(index_name);
  Digest digest;
  for (const std::string* part : {&head, &records}) {
    digest.add(part->data(), part->size());
    if (!write_all(file.get(), *part))
      fail(Status::io, "{}: write failed: {}", folder.path_of(index_name),
           system_reason(errno));
  }
  if (!file.close())
    fail(Status::io, "{}: write failed: {}", folder.path_of(index_name),
         system_reason(errno));
  sync_file(folder.path_of(index_name));
  entry.digest = digest.text();
  return entry;
}

// What no reader would take gets no name.
std::int64_t read_again(const Directory& folder) try {
  const ManifestTexts texts = read_texts(folder);
  const Manifest manifest = parse_texts(folder.path(), texts);
  check_files(folder, manifest, true);
  auto bytes = static_cast<std::int64_t>(texts.manifest.size() + texts.index.size());
  for (const FileEntry& file : manifest.files) bytes += file.bytes;
  return bytes;
} catch (const Error& error) {
  throw Error(Status::io,
              format("{} (reading the checkpoint before it gets its name)", error.what()),
              error.where());
}

}  // namespace

void write_views(const Directory& folder, const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  Hdf5File file(folder, whole_name);
  file.write_attribute("/", "format_version", info.format_version);
  file.write_attribute("/", "program_version", info.program_version);
  file.write_attribute("/", "step", info.step);
  file.write_attribute("/", "tokens", info.tokens);
  file.write_attribute("/", "mesh", mesh_text(info.mesh));
  for (const auto& [name, word] : save_words)
    if (!(info.*word).empty()) file.write_attribute("/", name, info.*word);
  if (info.loss) file.write_attribute("/", "loss", *info.loss);
  file.write_attribute("/", "deck", info.deck);
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorEntry& tensor = manifest.tensors[i];
    file.create_virtual("/" + tensor.path, tensor.dtype, tensor.shape,
                        pieces(manifest, i));
  }
  file.close();
}

std::int64_t complete_checkpoint(const Directory& folder, const CheckpointInfo& info,
                                 std::vector<std::string> shards) {
  FileEntry index;
  {
    Manifest manifest = merge_indices(std::move(shards));
    manifest.info = info;
    try {
      require_whole("checkpoint", manifest);
    } catch (const Error& error) {
      fail(Status::internal, "{}", error.what());
    }
    write_views(folder, manifest);
    manifest.files.push_back(file_entry(folder.path(), whole_name));
    index = write_index(folder, manifest);
  }
  for (const std::string& name : folder.names())
    if (name.starts_with("shards-")) folder.open(name).sync();
  write_text_atomically(folder, manifest_name, manifest_text(info, index));
  return read_again(folder);
}

}  // namespace trireme::io
