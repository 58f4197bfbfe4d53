// The names that a run writes in its directory, and what may bear them before it starts.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/directory.hpp"
#include "comm/watchdog.hpp"
#include "io/checkpoint_folder.hpp"

namespace trireme::io {
namespace {

constexpr const char* files[] = {"lock", "status.toml", "deck.toml",  "metrics.jsonl",
                                 "stop", "save",        "data-index", "validation-index"};

// A folder beneath, if it is there: those of its names that are ours are plain files.
void check_folder(const Directory& parent, const std::string& name,
                  const std::function<bool(const std::string&)>& is_ours) {
  if (!parent.has(name)) return;
  const Directory folder = parent.open(name);
  for (const auto& entry : folder.names())
    if (is_ours(entry)) folder.require_file(entry);
}

}  // namespace

void check_run_directory(const std::string& directory) {
  const Directory run(directory);
  for (const char* const name : files) run.require_file(name);
  check_folder(run, "flight", comm::is_flight_file);
  if (run.has("flight")) check_folder(run.open("flight"), "before", comm::is_flight_file);
  for (const char* const trackers : {"tensorboard", "wandb", "mlruns"})
    check_folder(run, trackers, [](const auto&) { return false; });
  check_folder(run, "gradients",
               [](const std::string& name) { return name.ends_with(".h5"); });
  check_folder(run, "samples",
               [](const std::string& name) { return name.ends_with(".jsonl"); });
  if (!run.has("checkpoints")) return;
  const Directory checkpoints = run.open("checkpoints");
  leftovers_in(checkpoints);
  if (!checkpoints.is_link(latest_name)) checkpoints.require_file(latest_name);
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
