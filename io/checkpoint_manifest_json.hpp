// The text of a manifest: JSON that ends with a digest of everything before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// What manifest.json holds: in format 1 everything, since then the attributes of the
// checkpoint, and size and digest of its index.
struct ParsedManifest {
  Manifest manifest;
  FileEntry index;  // no name: format 1
};

// `path` is the file, for messages. Throws NewerFormat, and Error(bad_content) naming
// file and entry when the digest is wrong, an entry is missing or of another kind, a
// number is out of its range, names are not plain, tensors or files are listed twice, or
// boxes lie outside their file or are not the whole tensor.
ParsedManifest parse_manifest(const std::string& path, const std::string& text);

// The manifest of a checkpoint whose files are listed in `index`.
std::string manifest_text(const CheckpointInfo& info, const FileEntry& index);

}  // namespace trireme::io
