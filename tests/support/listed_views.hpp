// Checkpoints as older programs wrote them, whose index lists the views: for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/checkpoint_views.hpp"
#include "io/digest.hpp"

namespace trireme::test {

// What the checkpoint in a folder holds, its views among the files.
inline io::Manifest manifest_with_views(const std::string& step) {
  io::Manifest manifest = io::read_manifest(step);
  if (!io::lists_views(manifest))
    manifest.files.push_back(io::file_entry(step, io::whole_name));
  return manifest;
}

// Makes a checkpoint with views one that lists them.
inline void list_views(const std::string& step) {
  const io::Manifest manifest = manifest_with_views(step);
  const std::string bytes = io::index_bytes(manifest);
  const io::FileEntry index{io::index_name, static_cast<std::int64_t>(bytes.size()),
                            io::digest_of(bytes), ""};
  const auto put = [&](const char* name, const std::string& text) {
    std::ofstream(step + "/" + name, std::ios::binary | std::ios::trunc) << text;
  };
  put(io::index_name, bytes);
  put(io::manifest_name, io::manifest_text(manifest.info, index));
  std::filesystem::remove(step + "/" + io::views_digest_name);
}

}  // namespace trireme::test
