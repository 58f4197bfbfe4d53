// The files that make shards one checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_complete.hpp"

#include <cerrno>
#include <utility>

#include "base/system_reason.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/index_merge.hpp"

namespace trireme::io {
namespace {

// Writes it piece by piece: it may be large.
FileEntry write_index(const Directory& folder, const IndexMerge& merge) {
  FileEntry entry{index_name, merge.bytes(), "", ""};
  require(entry.bytes <= index_limit_bytes, Status::resources,
          "{}: the index of {} boxes would have {} bytes, and at most {} can be read: "
          "shard over fewer ranks (parallel.sharding_strategy = \"HYBRID_SHARD\"); the "
          "checkpoint before this one stands",
          folder.path_of(index_name), merge.boxes(), entry.bytes, index_limit_bytes);
  Descriptor file = folder.create(index_name);
  Digest digest;
  const auto require_written = [&](bool written) {
    require(written, Status::io, "{}: write failed: {}", folder.path_of(index_name),
            system_reason(errno));
  };
  merge.write([&](std::string_view piece) {
    digest.add(piece.data(), piece.size());
    require_written(write_all(file.get(), piece));
  });
  require_written(file.close());
  sync_file(folder.path_of(index_name));
  entry.digest = digest.text();
  return entry;
}

// Shards that do not make whole tensors are an error of this program, not of a disk.
void require_tensors(const Manifest& manifest) {
  try {
    require_whole("checkpoint", manifest);
  } catch (const Error& error) {
    fail(Status::internal, "{}", error.what());
  }
}

// What no reader would take gets no name.
std::int64_t read_again(const Directory& folder) try {
  ManifestTexts texts = read_texts(folder);
  auto bytes = static_cast<std::int64_t>(texts.manifest.size() + texts.index.size());
  const Manifest manifest = parse_listed(folder.path(), std::move(texts));
  require_tensors(manifest);
  check_files(folder, manifest, true);
  for (const FileEntry& file : manifest.files) bytes += file.bytes;
  return bytes;
} catch (const Error& error) {
  if (error.status() == Status::internal) throw;
  throw Error(Status::io,
              format("{} (reading the checkpoint before it gets its name)", error.what()),
              error.where());
}

}  // namespace

std::int64_t complete_checkpoint(const Directory& folder, const CheckpointInfo& info,
                                 std::vector<std::string> indices) {
  const FileEntry index =
      write_index(folder, IndexMerge({indices.begin(), indices.end()}));
  indices = {};
  for (const std::string& name : folder.all_names())
    if (name.starts_with("shards-")) folder.open(name).sync();
  write_text_atomically(folder, manifest_name, manifest_text(info, index));
  return read_again(folder);
}

}  // namespace trireme::io
