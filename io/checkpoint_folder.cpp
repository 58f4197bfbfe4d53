// The folder of a run's checkpoints: names, old ones, and room on the disk.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_folder.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"
#include "io/link_target.hpp"

namespace trireme::io {
namespace {

// What is not complete, or not any more, has a name that starts with a dot.
constexpr std::string_view temporary_prefix = ".step-";
constexpr std::string_view trash_prefix = ".trash-";

// Where a link is made before it gets its name.
std::string new_link_name(const std::string& link) { return "." + link + ".tmp"; }

// False also where that cannot be found out now. Of a newer program's no more is known,
// and they are not ours to remove.
bool is_complete(const std::string& path) {
  try {
    return why_incomplete(path, 0, 0).empty();
  } catch (const NewerFormat&) {
    return false;
  }
}

// The checkpoints that a crash caught between two names: set aside, its place empty,
// whole, and later than all that stand. (An old one on its way out is older than those.)
void restore(const Directory& folder, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (!name.starts_with(trash_prefix)) continue;
    const std::string own = name.substr(trash_prefix.size());
    const auto step = step_of(own);
    if (!step || folder.has(own) || !is_complete(folder.path_of(name))) continue;
    const auto steps = steps_in(folder.path());
    if (std::any_of(steps.begin(), steps.end(), [&](std::int64_t other) {
          return other > *step && is_complete(folder.path_of(step_name(other)));
        }))
      continue;
    folder.rename(name, own);
    folder.sync();
    log::warn("{}: had been set aside for another that was never finished; it is back",
              folder.path_of(own));
  }
}

// What changes when a file of a checkpoint comes or goes. Its views do both while it is
// the same.
std::size_t files_in(const std::string& path) {
  const auto names = names_in(path);
  return static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(), [](const std::string& name) {
        return name.starts_with("shard") || name == index_name || name == manifest_name;
      }));
}

// Of `steps`, which the directory has, those that are complete but `step`, ascending.
std::vector<std::int64_t> complete_steps(const std::string& directory,
                                         const std::vector<std::int64_t>& steps,
                                         std::int64_t step, CompleteSteps& known) {
  CompleteSteps found;
  std::vector<std::int64_t> complete;
  for (const std::int64_t other : steps) {
    const std::string path = directory + "/" + step_name(other);
    std::size_t files = 0;
    try {
      files = files_in(path);
    } catch (const Error&) {
      continue;  // whether it is complete is not known
    }
    const auto before = known.find(other);
    const bool as_before = before != known.end() && before->second == files;
    if (other != step && !as_before && !is_complete(path)) continue;
    found[other] = files;
    if (other != step) complete.push_back(other);
  }
  known = std::move(found);
  return complete;
}

bool has(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

bool stays(std::int64_t step, const Retention& retention) {
  return step == retention.started_from ||
         (retention.keep_every > 0 && step % retention.keep_every == 0);
}

}  // namespace

std::string temporary_name(std::int64_t step) { return "." + step_name(step) + ".tmp"; }

std::vector<std::string> leftovers_among(const std::vector<std::string>& names,
                                         const Directory& folder) {
  std::vector<std::string> leftovers;
  for (const auto& name : names) {
    const bool is_folder =
        name.starts_with(temporary_prefix) || name.starts_with(trash_prefix);
    const bool is_new_link =
        name == new_link_name(latest_name) || name == new_link_name(best_name);
    if (is_folder && folder.is_link(name)) folder.require_folder(name);
    if (is_folder || is_new_link) leftovers.push_back(name);
  }
  return leftovers;
}

std::vector<std::string> restore_set_aside(const Directory& folder) {
  std::vector<std::string> names = folder.all_names();
  if (std::none_of(names.begin(), names.end(),
                   [](const std::string& name) { return name.starts_with('.'); }))
    return names;
  restore(folder, names);
  return folder.all_names();
}

void require_space(const std::string& directory, std::int64_t bytes) {
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) return;  // then writing will tell
  const double free =
      static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  require(free >= static_cast<double>(bytes), Status::io,
          "{}: the checkpoint needs {} of the disk, and {} are free; free some, or keep "
          "fewer checkpoints (checkpoint.keep)",
          directory, human_bytes(static_cast<double>(bytes)), human_bytes(free));
}

void publish(const std::string& directory, const std::string& temporary,
             const std::string& name) {
  const Directory folder = Directory::own(directory);
  const std::string trash = std::string(trash_prefix) + name;
  folder.require_folder(name);
  const bool replaces = folder.has(name);
  if (replaces) folder.rename(name, trash);
  try {
    folder.rename(temporary, name);
  } catch (...) {
    if (replaces) folder.rename(trash, name);
    throw;
  }
  folder.sync();
  if (replaces && !folder.remove_tree(trash))
    log::warn("{}: what stood here before cannot be removed", folder.path_of(trash));
}

void point_latest(const std::string& directory, const std::string& name) {
  point_link(directory, latest_name, name);
}

// The link is our own: it is replaced, never followed.
bool point_link(const std::string& directory, const std::string& link,
                const std::string& name) {
  if (link_target(AT_FDCWD, directory + "/" + link) == name) return false;
  const Directory folder = Directory::own(directory);
  const std::string made = new_link_name(link);
  const int at = folder.descriptor();
  folder.remove(made);  // of an earlier crash
  const auto make = [&] { return ::symlinkat(name.c_str(), at, made.c_str()); };
  if (uninterrupted(make) != 0)
    fail(Status::cannot_create, "{}: cannot be made: {}", folder.path_of(link),
         system_reason(errno));
  const auto rename = [&] { return ::renameat(at, made.c_str(), at, link.c_str()); };
  if (uninterrupted(rename) != 0) {
    const int error = errno;
    folder.remove(made);
    fail(Status::cannot_create, "{}: cannot be replaced: {}", folder.path_of(link),
         system_reason(error));
  }
  folder.sync();
  return true;
}

std::vector<std::string> set_old_aside(const std::string& directory, std::int64_t step,
                                       const Retention& retention, CompleteSteps& known,
                                       BestCheckpoints* best) {
  if (retention.keep <= 0 && best == nullptr) return {};
  std::vector<std::int64_t> all;
  try {
    all = steps_in(directory);
  } catch (const Error& error) {
    log::warn("old checkpoints stay for now: {}", error.what());
    return {};
  }
  const std::vector<std::int64_t> complete = complete_steps(directory, all, step, known);
  std::vector<std::int64_t> stay;
  if (best != nullptr) {
    std::vector<std::int64_t> standing = complete;
    standing.push_back(step);
    stay = best->among(standing, all);
  }
  if (retention.keep <= 0) return {};
  const Directory folder = Directory::own(directory);
  const auto kept = static_cast<std::size_t>(retention.keep - 1);
  std::vector<std::string> aside;
  for (std::size_t i = 0; i + kept < complete.size(); ++i) {
    const std::string name = step_name(complete[i]);
    // A link to a checkpoint is somebody's who keeps it elsewhere.
    if (stays(complete[i], retention) || has(stay, complete[i]) || folder.is_link(name))
      continue;
    const std::string trash = std::string(trash_prefix) + name;
    try {
      if (best == nullptr && link_target(folder.descriptor(), best_name) == name)
        folder.remove(best_name);
      folder.rename(name, trash);
      aside.push_back(trash);
    } catch (const Error& error) {
      log::warn("this old checkpoint cannot be removed: {}", error.what());
    }
  }
  return aside;
}

}  // namespace trireme::io
