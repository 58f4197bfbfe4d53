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

namespace trireme::io {
namespace {

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
  ManifestTexts texts = read_texts(folder);
  auto bytes = static_cast<std::int64_t>(texts.manifest.size() + texts.index.size());
  const Manifest manifest = parse_texts(folder.path(), std::move(texts));
  check_files(folder, manifest, true);
  for (const FileEntry& file : manifest.files) bytes += file.bytes;
  return bytes;
} catch (const Error& error) {
  throw Error(Status::io,
              format("{} (reading the checkpoint before it gets its name)", error.what()),
              error.where());
}

}  // namespace

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
    index = write_index(folder, manifest);
  }
  for (const std::string& name : folder.names())
    if (name.starts_with("shards-")) folder.open(name).sync();
  write_text_atomically(folder, manifest_name, manifest_text(info, index));
  return read_again(folder);
}

}  // namespace trireme::io
