// The folder of a run's checkpoints: names, old ones, disk space; no call is collective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/directory.hpp"
#include "io/best_checkpoints.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// Where the checkpoint of a step is written before it gets its name.
std::string temporary_name(std::int64_t step);

// Names of what earlier crashes left. Throws Error(cannot_create) when one is a link, but
// for that of a new `latest` or `best`.
// `names`: all that the folder has.
std::vector<std::string> leftovers_among(const std::vector<std::string>& names,
                                         const Directory& folder);
// Gives a whole checkpoint its name back that was set aside for one that never came. The
// names that the folder has then. Throws Error(cannot_create).
std::vector<std::string> restore_set_aside(const Directory& folder);

// Throws Error(io) naming the folder, what is free and what is needed.
void require_space(const std::string& directory, std::int64_t bytes);

// Renames the finished checkpoint `temporary` to `name` and syncs the folder. A damaged
// checkpoint of that name is moved to .trash-<name> first and moved back if the rename
// fails. Throws Error(cannot_create) or Error(io).
void publish(const std::string& directory, const std::string& temporary,
             const std::string& name);
// Makes the link `latest` point at `name`, atomically (symlink and rename). Throws
// Error(cannot_create) or Error(io).
void point_latest(const std::string& directory, const std::string& name);
// The same of another link of the program's own. Whether it was another one before.
bool point_link(const std::string& directory, const std::string& link,
                const std::string& name);

// How many files the folders of checkpoints had, without views, when they were complete,
// by step.
using CompleteSteps = std::map<std::int64_t, std::size_t>;

// Called after `step` was written and verified. Renames each complete checkpoint that
// `retention` (and `best`, if not null) does not keep to .trash-<name>, so that no reader
// sees a half-removed one, and returns the new names. A failed rename is logged. `known`
// caches which steps are complete, so that unchanged folders are not read again.
std::vector<std::string> set_old_aside(const std::string& directory, std::int64_t step,
                                       const Retention& retention, CompleteSteps& known,
                                       BestCheckpoints* best = nullptr);

}  // namespace trireme::io
