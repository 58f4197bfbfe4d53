// The files that make shards one checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_complete.hpp"

#include "io/checkpoint_shard.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

void write_whole(const Directory& folder, const CheckpointInfo& info,
                 const std::map<std::string, TensorLayout>& layout) {
  Hdf5File file(folder, whole_name);
  file.write_attribute("/", "format_version", info.format_version);
  file.write_attribute("/", "program_version", info.program_version);
  file.write_attribute("/", "step", info.step);
  file.write_attribute("/", "tokens", info.tokens);
  file.write_attribute("/", "mesh", mesh_text(info.mesh));
  file.write_attribute("/", "deck", info.deck);
  for (const auto& [tensor, part] : layout)
    file.create_virtual("/" + tensor, part.dtype, part.whole, part.pieces);
  file.close();
}

}  // namespace

std::int64_t complete_checkpoint(const Directory& folder, const CheckpointInfo& info,
                                 const std::vector<ShardReport>& reports) {
  const auto layout = make_layout(reports);
  write_whole(folder, info, layout);
  Manifest manifest;
  manifest.info = info;
  manifest.files.push_back(file_entry(folder.path(), whole_name));
  for (const auto& report : reports)
    if (!report.file.name.empty()) manifest.files.push_back(report.file);
  std::int64_t bytes = 0;
  for (const auto& file : manifest.files) bytes += file.bytes;
  for (const auto& [tensor, part] : layout) {
    manifest.tensors.push_back({tensor, part.dtype, part.whole, ""});
    manifest.boxes.push_back(part.boxes);
  }
  const std::string text = manifest_text(manifest);
  write_text_atomically(folder, manifest_name, text);
  return bytes + static_cast<std::int64_t>(text.size());
}

}  // namespace trireme::io
