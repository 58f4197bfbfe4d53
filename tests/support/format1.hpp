// Manifests of format 1, which held everything as JSON: for tests of reading them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "io/checkpoint_manifest.hpp"
#include "io/digest.hpp"
#include "support/listed_views.hpp"

namespace trireme::test {

using Json = nlohmann::ordered_json;

inline Json to_json(const Shape& shape) {
  Json extents = Json::array();
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

inline Json format1_file(const io::FileEntry& file) {
  Json entry{{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.digest}};
  if (!file.frame.empty()) entry["frame_xxh3_128"] = file.frame;
  return entry;
}

// The text of a manifest.json of format 1 that says what `manifest` says.
inline std::string format1_text(const io::Manifest& manifest) {
  const io::CheckpointInfo& info = manifest.info;
  Json json{{"format", "trireme checkpoint"},
            {"format_version", 1},
            {"program_version", info.program_version},
            {"step", info.step},
            {"tokens", info.tokens},
            {"mesh",
             {{"pipeline", info.mesh.pipeline},
              {"data", info.mesh.data},
              {"context", info.mesh.context},
              {"tensor", info.mesh.tensor}}},
            {"deck", info.deck}};
  json["files"] = Json::array();
  for (const bool shard : {false, true})  // checkpoint.h5 came first
    for (const auto& file : manifest.files)
      if (file.name.starts_with("shard") == shard)
        json["files"].push_back(format1_file(file));
  json["tensors"] = Json::array();
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const io::TensorEntry& tensor = manifest.tensors[i];
    Json& entry = json["tensors"].emplace_back();
    entry = {{"path", tensor.path},
             {"dtype", name_of(tensor.dtype)},
             {"shape", to_json(tensor.shape)}};
    if (manifest.boxes.count(i) == 0 && tensor.shape.elements() > 0) continue;
    entry["boxes"] = Json::array();
    for (std::size_t b = 0; b < manifest.boxes.count(i); ++b) {
      const io::BoxRecord box = manifest.boxes.get(i, b);
      entry["boxes"].push_back({{"file", manifest.files[box.file].name},
                                {"offset", box.offset},
                                {"begin", to_json(box.begin)},
                                {"shape", to_json(box.extent)},
                                {"xxh3_128", io::digest_text(box.digest)}});
    }
  }
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // the closing "\n}"
  return text + ",\n \"digest\": \"" + io::digest_of(text) + "\"\n}\n";
}

// Makes a checkpoint one of format 1.
inline void make_format1(const std::string& step) {
  const std::string text = format1_text(manifest_with_views(step));
  std::filesystem::remove(step + "/" + io::views_digest_name);
  std::filesystem::remove(step + "/" + io::index_name);
  std::ofstream(step + "/" + io::manifest_name, std::ios::binary | std::ios::trunc)
      << text;
}

}  // namespace trireme::test
