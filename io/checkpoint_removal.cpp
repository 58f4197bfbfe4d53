// Removing old checkpoints and what crashes left: each rank its share of the shards.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_removal.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>

#include "base/log.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_shard.hpp"

namespace trireme::io {
namespace {

struct Leaving {
  std::string name;
  int shards = 0;
};

std::vector<Leaving> parse_list(const std::string& list) {
  std::vector<Leaving> all;
  std::istringstream lines(list);
  Leaving next;
  while (lines >> next.shards && lines.get() == ' ' && std::getline(lines, next.name))
    all.push_back(next);
  return all;
}

// Of a folder that cannot be read, nobody has a share.
int shards_below(const Directory& folder, const std::string& name) try {
  const auto below = folder.find(name);
  return below ? shards_among(below->names()) : 0;
} catch (const Error&) {
  return 0;
}

void remove_shards(const Directory& folder, const Leaving& leaving, int first, int end) {
  const Directory checkpoint = folder.open(leaving.name);
  std::optional<Directory> below;
  for (int number = first; number < end; ++number) {
    const std::string path = shard_path(number, leaving.shards);
    const auto slash = path.find('/');
    if (slash == std::string::npos) {
      checkpoint.remove(path);
      continue;
    }
    const std::string own = path.substr(0, slash);
    if (!below || last_name_of(below->path()) != own) below = checkpoint.find(own);
    if (below) below->remove(path.substr(slash + 1));
  }
}

}  // namespace

std::string removal_list(const Directory& folder, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names)
    list += format("{} {}\n", shards_below(folder, name), name);
  return list;
}

void remove_share(const std::string& directory, const std::string& list, int rank,
                  int ranks) {
  for (const Leaving& leaving : parse_list(list)) {
    const auto start_of = [&](std::int64_t part) {
      return static_cast<int>(part * leaving.shards / ranks);
    };
    const int first = start_of(rank), end = start_of(rank + 1);
    if (first == end) continue;
    try {
      remove_shards(Directory::own(directory), leaving, first, end);
    } catch (const Error&) {  // it is left for the rest, whose failure is reported
    }
  }
}

std::vector<std::string> remove_rest(const std::string& directory,
                                     const std::string& list) {
  const Directory folder = Directory::own(directory);
  std::vector<std::string> stay;
  for (const Leaving& leaving : parse_list(list))
    if (!folder.remove_tree(leaving.name)) stay.push_back(leaving.name);
  return stay;
}

void warn_that_it_stays(const std::string& directory, const std::string& name,
                        std::set<std::string>& told) {
  if (!told.insert(name).second) return;
  log::warn(
      "{}/{}: this rest of a checkpoint cannot be removed: the run goes on, and "
      "each save tries again; remove it by hand if it takes room",
      directory, name);
}

std::vector<std::string> clear_leftovers(comm::World& world, const std::string& directory,
                                         const std::string& needed,
                                         std::set<std::string>& told) {
  std::vector<std::string> names;
  std::string list;
  world.agree([&] {
    if (world.rank() != 0) return;
    const auto folder = Directory(parent_of(directory)).find(last_name_of(directory));
    if (!folder) return;
    names = restore_set_aside(*folder);
    list = removal_list(*folder, leftovers_among(names, *folder));
  });
  list = world.broadcast(list);
  if (list.empty()) return names;
  remove_share(directory, list, world.rank(), world.size());
  world.barrier();
  world.agree([&] {
    if (world.rank() != 0) return;
    for (const std::string& name : remove_rest(directory, list)) {
      require(
          name != needed, Status::cannot_create,
          "{}/{}: left by an earlier run, cannot be removed, and the checkpoint is to "
          "be written there: remove it by hand",
          directory, name);
      warn_that_it_stays(directory, name, told);
    }
    names = Directory::own(directory).all_names();
  });
  return names;
}

std::vector<std::string> clear_leftovers(comm::World& world,
                                         const std::string& directory) {
  std::set<std::string> told;
  return clear_leftovers(world, directory, "", told);
}

}  // namespace trireme::io
