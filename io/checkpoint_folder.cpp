// The folder of a run's checkpoints: names, old ones, and room on the disk.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_folder.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

// What is not complete, or not any more, has a name that starts with a dot.
constexpr std::string_view temporary_prefix = ".step-";
constexpr std::string_view trash_prefix = ".trash-";
constexpr std::string_view new_latest_name = ".latest.tmp";

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

void rename_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail(Status::cannot_create, "{}: cannot be renamed to '{}': {}", from, to,
         std::strerror(errno));
}

// Of a newer program's no more is known, and they are not ours to remove.
bool is_complete(const std::string& path) {
  try {
    return why_incomplete(path, 0, 0).empty();
  } catch (const NewerFormat&) {
    return false;
  }
}

// The checkpoints that a crash caught between two names: set aside, its place empty,
// whole, and later than all that stand. (An old one on its way out is older than those.)
void restore_set_aside(const std::string& directory) {
  for (const auto& name : names_in(directory)) {
    if (!name.starts_with(trash_prefix)) continue;
    const std::string own = name.substr(trash_prefix.size());
    const std::string aside = directory + "/" + name, path = directory + "/" + own;
    const auto step = step_of(own);
    if (!step || exists(path) || !is_complete(aside)) continue;
    const auto steps = steps_in(directory);
    if (std::any_of(steps.begin(), steps.end(), [&](std::int64_t other) {
          return other > *step && is_complete(directory + "/" + step_name(other));
        }))
      continue;
    rename_path(aside, path);
    sync_directory(directory);
    log::warn("{}: had been set aside for another that was never finished; it is back",
              path);
  }
}

bool stays(std::int64_t step, const Retention& retention) {
  return step == retention.started_from ||
         (retention.keep_every > 0 && step % retention.keep_every == 0);
}

}  // namespace

std::string temporary_name(std::int64_t step) { return "." + step_name(step) + ".tmp"; }

bool remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !error;
}

void remove_leftovers(const std::string& directory) {
  restore_set_aside(directory);
  std::vector<std::string> names;
  for (const auto& name : names_in(directory))
    if (name.starts_with(temporary_prefix) || name.starts_with(trash_prefix) ||
        name == new_latest_name)
      names.push_back(directory + "/" + name);
  for (const auto& name : names)
    require(remove_tree(name), Status::cannot_create,
            "{}: left by an earlier run, cannot be removed", name);
}

void require_space(const std::string& directory, std::int64_t bytes) {
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) return;  // then writing will tell
  const double free =
      static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  require(free >= static_cast<double>(bytes), Status::io,
          "{}: the checkpoint needs {} of the disk, and {} are free; make room, or keep "
          "fewer checkpoints (checkpoint.keep)",
          directory, human_bytes(static_cast<double>(bytes)), human_bytes(free));
}

void publish(const std::string& directory, const std::string& temporary,
             const std::string& name) {
  const std::string path = directory + "/" + name;
  const std::string trash = format("{}/{}{}", directory, trash_prefix, name);
  const bool replaces = exists(path);
  if (replaces) rename_path(path, trash);
  try {
    rename_path(temporary, path);
  } catch (...) {
    if (replaces) ::rename(trash.c_str(), path.c_str());
    throw;
  }
  sync_directory(directory);
  if (replaces && !remove_tree(trash))
    log::warn("{}: what stood here before cannot be removed", trash);
}

void point_latest(const std::string& directory, const std::string& name) {
  if (latest_target(directory) == name) return;
  const std::string path = directory + "/" + latest_name;
  const std::string temporary = format("{}/{}", directory, new_latest_name);
  ::unlink(temporary.c_str());  // of an earlier crash
  if (::symlink(name.c_str(), temporary.c_str()) != 0)
    fail(Status::cannot_create, "{}: cannot be made: {}", path, std::strerror(errno));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(Status::cannot_create, "{}: cannot be replaced: {}", path, std::strerror(error));
  }
  sync_directory(directory);
}

void tidy(const std::string& directory, const std::string& newest) {
  if (!exists(directory)) return;
  remove_leftovers(directory);
  if (!newest.empty()) point_latest(directory, newest);
}

void remove_old(const std::string& directory, std::int64_t step,
                const Retention& retention) {
  if (retention.keep <= 0) return;
  std::vector<std::int64_t> complete;
  for (const std::int64_t other : steps_in(directory))
    if (other != step && is_complete(directory + "/" + step_name(other)))
      complete.push_back(other);
  const auto kept = static_cast<std::size_t>(retention.keep - 1);
  for (std::size_t i = 0; i + kept < complete.size(); ++i) {
    if (stays(complete[i], retention)) continue;
    const std::string name = step_name(complete[i]);
    const std::string path = directory + "/" + name;
    const std::string trash = format("{}/{}{}", directory, trash_prefix, name);
    if (::rename(path.c_str(), trash.c_str()) != 0 || !remove_tree(trash))
      log::warn("{}: this old checkpoint cannot be removed: {}", path,
                std::strerror(errno));
  }
}

}  // namespace trireme::io
