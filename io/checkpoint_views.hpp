// checkpoint.h5, in which other programs see whole tensors: made after the checkpoint.
// SPDX-License-Identifier: Apache-2.0
// A checkpoint is whole without it. No call here is collective.
#pragma once

#include <functional>
#include <string>

#include "base/directory.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// Holds the digests of the manifest and of checkpoint.h5, as `xxhsum -H128` prints them.
inline constexpr auto views_digest_name = "checkpoint.h5.xxh3";

// Older programs made checkpoint.h5 before the checkpoint, and listed it in the index.
bool lists_views(const Manifest& manifest);

// Writes the views to a file of a checkpoint's folder. False, with the file unfinished,
// when `stops`, which is asked before each tensor, said so. Throws Error(cannot_create)
// or Error(io).
bool write_views(const Directory& folder, const std::string& name,
                 const Manifest& manifest, const std::function<bool()>& stops = {});

// Makes the views of the checkpoint in a folder, under a temporary name until they are on
// the disk; what bears their name is replaced. False, and nothing is left, when `stops`
// said so. Throws Error(bad_content) for a checkpoint that cannot be read or lists its
// views, Error(cannot_create), also while another process makes them, or Error(io).
bool make_views(const Directory& folder, const std::function<bool()>& stops = {});

// What is wrong with views that the index does not list, "" if nothing is. They are
// there.
std::string why_views_differ(const Directory& folder);

}  // namespace trireme::io
