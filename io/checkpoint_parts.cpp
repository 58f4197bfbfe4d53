// A checkpoint written in shards that another try need not write again.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_parts.hpp"

#include <unistd.h>

#include <map>
#include <utility>

#include "io/checkpoint_complete.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/checkpoint_view_queue.hpp"
#include "io/files.hpp"
#include "io/index_gather.hpp"
#include "io/partial_work.hpp"
#include "io/run_lock.hpp"

namespace trireme::io {
namespace {

constexpr std::string_view lock_name = "lock";

std::size_t to_size(int n) { return static_cast<std::size_t>(n); }

// Room for what is not there yet.
void require_room(comm::World& world, const std::string& directory,
                  const PartialWork& work,
                  const std::vector<std::vector<TensorBox>>& shards) {
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (!work.folder().has(shard_name(static_cast<int>(i))))
      needed += shard_bytes(shards[i]);
  if (world.rank() == 0) require_space(directory, needed);
}

// A folder that goes with this, unless something is in it.
class FolderRemovedIfEmpty {
 public:
  explicit FolderRemovedIfEmpty(std::string path) : path_(std::move(path)) {}
  ~FolderRemovedIfEmpty() { ::rmdir(path_.c_str()); }
  FolderRemovedIfEmpty(const FolderRemovedIfEmpty&) = delete;
  FolderRemovedIfEmpty& operator=(const FolderRemovedIfEmpty&) = delete;

 private:
  std::string path_;
};

// Whether this call, or a stopped one before it, has made the folder: no parts are left
// in one that was there before.
bool makes_folder(const std::string& directory, const std::string& temporary) {
  const auto folder = Directory(parent_of(directory)).find(last_name_of(directory));
  return !folder || folder->has(temporary);
}

}  // namespace

PartsResult write_checkpoint_parts(comm::World& world, const std::string& directory,
                                   const CheckpointInfo& info,
                                   const std::vector<std::vector<TensorBox>>& shards,
                                   const std::string& job) {
  const std::string temporary = temporary_name(info.step);
  std::optional<FolderRemovedIfEmpty> made;
  std::optional<RunLock> lock;  // goes before the folder
  bool stayed = false;
  world.agree([&] {
    if (world.rank() != 0) return;
    make_directories(parent_of(directory));
    if (makes_folder(directory, temporary)) made.emplace(directory);
    const Directory folder = Directory::make_own(directory);
    lock.emplace(directory);
    stayed = PartialWork::prepare(folder, temporary, job);
  });
  PartsResult result{static_cast<std::int64_t>(shards.size()), 0};
  try {
    std::map<int, std::string> reports;
    std::int64_t kept = 0;
    world.agree([&] {
      const PartialWork work(Directory::own(directory).open(temporary));
      require_room(world, directory, work, shards);
      for (auto i = to_size(world.rank()); i < shards.size();
           i += to_size(world.size())) {
        const int number = static_cast<int>(i);
        if (auto note = work.note_of(shard_name(number))) {
          reports[number] = std::move(*note);
          ++kept;
          continue;
        }
        ShardReport report = write_shard(work.folder(), shard_name(number), shards[i]);
        work.record(report.file, report.index);
        reports[number] = std::move(report.index);
      }
    });
    auto all = gather_indices(world, std::move(reports));
    result.kept = static_cast<std::int64_t>(world.sum(static_cast<double>(kept)));
    world.agree([&] {
      if (world.rank() != 0) return;
      const PartialWork work(Directory::own(directory).open(temporary));
      complete_checkpoint(work.folder(), info, std::move(all));
      work.clear();
      const std::string name = step_name(info.step);
      publish(directory, temporary, name);
      point_latest(directory, name);
      ViewQueue views(directory);
      views.add(name, RunIn::caller);
      views.finish();
    });
  } catch (const comm::Agreed&) {
    if (world.rank() == 0)
      PartialWork::give_up(Directory::own(directory), temporary, stayed);
    lock.reset();
    made.reset();
    world.barrier();  // no rank reports before that is done
    throw;
  }
  return result;
}

bool holds_parts_only(const std::string& directory, std::int64_t step) {
  const Directory folder = Directory::own(directory);
  for (const std::string& name : folder.names())
    if (name != temporary_name(step) && name != lock_name) return false;
  return true;
}

}  // namespace trireme::io
