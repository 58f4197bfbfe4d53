// The checkpoints that a training run writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "config/fault.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "io/checkpoint_writer.hpp"
#include "train/progress.hpp"

namespace trireme::train {

// A checkpoint that stands.
struct Saved {
  std::int64_t step = 0;
  std::int64_t bytes = 0;       // of its files; 0: it stood before
  double seconds = 0;           // from its beginning until it stood
  double blocking_seconds = 0;  // of them training waited for it
};

// What a checkpoint of this run says of itself, without what add_progress() adds. base:
// of the model beside adapters (train/base_check.hpp).
io::CheckpointInfo info_of_run(const comm::World& world, const config::RunConfig& config,
                               const std::string& deck, const std::string& base = {});
// Adds how far the run has come, and the time.
void add_progress(io::CheckpointInfo& info, const Progress& progress);

// Writes checkpoints. All calls are collective over the world.
class Saver {
 public:
  // boxes: what a checkpoint holds of this rank, at the time of the call. With
  // checkpoint.async allocates memory for a copy of what this rank writes.
  Saver(comm::World& world, const config::RunConfig& config, const std::string& deck,
        std::function<std::vector<io::TensorBox>()> boxes, const std::string& base = {});

  // The run went on from this step, whose checkpoint it keeps, and gives views of whole
  // tensors if a run that died has not.
  void started_from(std::int64_t step);
  // Begins a checkpoint, after the end of the last one. What it returns stands: the last
  // one if it was under way, and this one unless checkpoint.async.
  std::vector<Saved> save(const Progress& progress);
  // Weights and moments are about to change: waits until they have been copied.
  void before_update();
  // An injected fault: slow_copy or hang_disk, from here on.
  void inject(config::FaultKind kind) { fault_ = kind; }
  // At the end of a step: what stands by now. Throws an Agreed error when it failed.
  std::vector<Saved> poll();
  // Waits for the one under way.
  std::vector<Saved> finish();
  // Waits for views of whole tensors, for so long at most.
  void finish_views(double most_seconds) { writer_->finish_views(most_seconds); }
  // Without throwing, because another error is under way: a failure becomes a warning.
  void finish_quietly();

 private:
  void add(std::vector<Saved>& saved, const std::optional<io::WrittenCheckpoint>& done);

  comm::World& world_;
  std::function<std::vector<io::TensorBox>()> boxes_;
  io::CheckpointInfo info_;
  io::Retention retention_;
  std::optional<io::CheckpointSnapshot> snapshot_;
  std::optional<io::CheckpointWriter> writer_;
  double blocking_seconds_ = 0;  // of the one under way
  std::optional<config::FaultKind> fault_;
};

}  // namespace trireme::train
