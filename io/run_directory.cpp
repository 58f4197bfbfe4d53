// The names that a run writes in its directory, and what may bear them before it starts.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "comm/watchdog.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::io {
namespace {

constexpr const char* files[] = {
    "lock", "status.toml", "deck.toml",        "metrics.jsonl", "stop",
    "save", "data-index",  "validation-index", "reference.h5",  "reference.h5.tmp"};

// A folder and what is in it, read once.
struct Listed {
  // Throws Error(io) when the folder cannot be read to its end.
  explicit Listed(Directory opened)
      : folder(std::move(opened)), entries(folder.entries()) {}

  Directory folder;
  std::vector<Directory::Entry> entries;

  bool has(const std::string& name) const {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.name == name; });
  }
  std::optional<Listed> find(const std::string& name) const {
    if (!has(name)) return {};
    return Listed(folder.open(name));
  }
};

// A folder beneath, if it is there: those of its names that are ours are plain files.
void check_folder(const Listed& parent, const std::string& name,
                  const std::function<bool(const std::string&)>& is_ours) {
  const auto own = parent.find(name);
  if (!own) return;
  for (const auto& entry : own->entries)
    if (is_ours(entry.name)) own->folder.require_file(entry.name);
}

// A checkpoint's name is that of a directory, or of a link to one that is kept elsewhere.
void check_steps(const Listed& checkpoints) {
  for (const auto& [name, is_folder] : checkpoints.entries) {
    if (!step_of(name) || is_folder) continue;
    if (!checkpoints.folder.is_link(name)) {
      checkpoints.folder.require_folder(name);
      continue;
    }
    struct stat there {};
    const int at = checkpoints.folder.descriptor();
    const bool known = ::fstatat(at, name.c_str(), &there, 0) == 0;
    require(known && S_ISDIR(there.st_mode), Status::cannot_create,
            "{}: is a link that leads to no directory{}: remove it, or bring back the "
            "checkpoint that it named",
            checkpoints.folder.path_of(name), known ? "" : ": " + system_reason(errno));
  }
}

}  // namespace

void check_run_directory(const std::string& directory) {
  const Listed run{Directory(directory)};
  for (const char* const name : files)
    if (run.has(name)) run.folder.require_file(name);
  check_folder(run, "flight", comm::is_flight_file);
  if (const auto flight = run.find("flight"))
    check_folder(*flight, "before", comm::is_flight_file);
  for (const char* const trackers : {"tensorboard", "wandb", "mlruns"})
    check_folder(run, trackers, [](const auto&) { return false; });
  check_folder(run, "gradients",
               [](const std::string& name) { return name.ends_with(".h5"); });
  check_folder(run, "samples",
               [](const std::string& name) { return name.ends_with(".jsonl"); });
  const auto checkpoints = run.find("checkpoints");
  if (!checkpoints) return;
  leftovers_among(names_of(checkpoints->entries), checkpoints->folder);
  check_steps(*checkpoints);
  if (checkpoints->has(latest_name) && latest_target(checkpoints->folder).empty())
    checkpoints->folder.require_file(latest_name);
}

bool is_asked_by_file(const std::string& directory, const char* name) {
  struct stat status {};
  const std::string path = directory + "/" + name;
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

void remove_request(const std::string& directory, const char* name) {
  if (is_asked_by_file(directory, name)) ::unlink((directory + "/" + name).c_str());
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(path, error);
  return error ? path : whole.string();
}

}  // namespace trireme::io
