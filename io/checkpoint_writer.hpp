// Writing checkpoints while training goes on, or while it waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/background.hpp"
#include "io/best_checkpoints.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/checkpoint_view_queue.hpp"
#include "io/index_gather.hpp"

namespace trireme::io {

struct WrittenCheckpoint {
  std::int64_t step = 0;
  std::int64_t bytes = 0;  // of all files, on rank 0; 0 when it stood already
  double seconds = 0;      // from begin() to its name
};

// The checkpoints of one run, one at a time: `<directory>/step-XXXXXXXX`, at which
// `<directory>/latest` points. Until the rename that gives one its name everything of it
// lies under a temporary name; files and directories are synced before. Writing the step
// that exists already and is complete replaces nothing and succeeds. The oldest complete
// ones beyond those that stay are removed only after the new one is complete, temporary
// directories that earlier crashes left before it begins. When any rank fails, earlier
// checkpoints and `latest` are as they were.
//
// Each is written in phases: every rank writes its shard, or ranks that share a file do
// so in turn, then rank 0 makes them whole and gives them their name. Then each rank
// removes its share of old ones, and rank 0 what is left of them. A thread of each rank
// does all that, in the background or while the callers wait: then, too, ranks are asked
// whether they are ready instead of being waited for in a collective, which has a limit.
// A rank that is alone writes in the caller's thread. Another thread of rank 0 makes the
// views of checkpoints that have their name, which no other phase waits for. MPI is
// called by the caller's thread only. All calls are collective over the world, made in
// the same order by every rank.
class CheckpointWriter {
 public:
  // ranks_per_file: ranks next to each other write so many to a file. run_in: which
  // thread removes old checkpoints, makes views, and writes where other ranks wait for
  // this one; with RunIn::caller the caller's does all that is not in the background.
  CheckpointWriter(comm::World& world, std::string directory, const Retention& retention,
                   int ranks_per_file = 1, RunIn run_in = RunIn::own_thread);
  // Waits for the threads; a checkpoint that is not finished is left without a name, and
  // others are left without views.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // What the next checkpoint removes.
  void set_retention(const Retention& retention) { retention_ = retention; }

  // From here on those with the lowest validation losses stay too, at most so many.
  void keep_best(int number) { best_.emplace(directory_, number); }
  // The loss of the next checkpoint, which is begun then; none: its step has none.
  void set_validation_loss(std::optional<double> loss) {
    if (best_) best_->set_loss(loss);
  }

  // Removes leftovers, checks that the disk has space, and starts. The data of boxes that
  // this rank writes must stay as it is until the end, from the call to `first` on, if
  // there is one, with which the work begins. Throws as poll() does.
  void begin(const CheckpointInfo& info, std::vector<TensorBox> boxes, bool background,
             std::function<void()> first = {});
  // Goes on without waiting for a disk (unless the caller's thread does the work). The
  // checkpoint that this call brought to its name, if it did. Throws an Agreed
  // Error(cannot_create) or Error(io), naming the file, on every rank when it failed on
  // any; earlier checkpoints are then as they were, and another may be begun.
  std::optional<WrittenCheckpoint> poll();
  // Does the same, but waits until the checkpoint has its name.
  std::optional<WrittenCheckpoint> wait_for_name();
  // Waits until old ones are removed too.
  std::optional<WrittenCheckpoint> finish();
  // Makes the views of the checkpoint of a step, if it has none, behind what follows.
  void add_views(std::int64_t step);
  // Waits until all views are made, or for so long; those that are not made then are
  // left to a later start. The log says so, and that it takes long.
  void finish_views(double most_seconds = std::numeric_limits<double>::infinity());
  bool idle() const { return phase_ == Phase::idle; }

 private:
  enum class Phase : std::uint8_t {
    idle,
    shards,
    gathering,
    naming,
    removing,
    removing_rest
  };
  void start(std::function<void()> work);
  bool any_busy();
  void advance();
  void start_turn(std::function<void()> first);
  void start_gathering();
  void gather_next();
  void start_naming();
  void start_removing();
  void start_removing_rest();
  void require_room_for_index();

  void make_folder();
  void remove_temporary() const;

  comm::World& world_;
  std::string directory_, temporary_;           // the second is a name in the first
  std::optional<std::pair<dev_t, ino_t>> run_;  // the folder above, as rank 0 found it
  Retention retention_;
  RunIn run_in_;
  CompleteSteps complete_;
  std::optional<BestCheckpoints> best_;
  int ranks_per_file_ = 1, turn_ = 0;  // the ranks' with this place in their file
  Phase phase_ = Phase::idle;
  bool background_ = false;
  CheckpointInfo info_;
  std::vector<TensorBox> boxes_;
  ShardReport report_;
  std::optional<IndexGather> indices_;  // none: the checkpoint has its name already
  std::int64_t bytes_ = 0;
  std::string to_remove_;                   // a removal_list() of old ones
  std::set<std::string> could_not_remove_;  // what cannot be removed, and was said
  std::optional<WrittenCheckpoint> done_;
  std::chrono::steady_clock::time_point begun_, started_;  // the save, its phase's work
  ViewQueue views_;                                        // of rank 0
  Background work_;  // last: its thread uses the others
};

}  // namespace trireme::io
