// Trainer: the loop of a training run, from its start to an orderly end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/cuda_devices.hpp"
#include "base/memory.hpp"
#include "comm/watchdog.hpp"
#include "engine/engine.hpp"
#include "engine/step.hpp"
#include "io/sample_source.hpp"
#include "launch/batch_job.hpp"
#include "train/batch_loader.hpp"
#include "train/checkpoints.hpp"
#include "train/dumps.hpp"
#include "train/faults.hpp"
#include "train/health.hpp"
#include "train/profiler.hpp"
#include "train/progress.hpp"
#include "train/recorder.hpp"
#include "train/references.hpp"
#include "train/slow_hosts.hpp"
#include "train/text_samples.hpp"
#include "train/validation.hpp"

namespace trireme::train {

// What a plan said of the run.
struct PlannedRun {
  // Called on rank 0 once the data are open, before the model takes memory, if a rank
  // keeps texts or places of documents: with the bytes of the one that keeps most. Throws
  // where there is no room.
  std::function<void(std::int64_t)> make_room_for_data{};
  std::array<std::int64_t, memory_classes> memory{};  // bytes of rank 0, by class
  double step_seconds = 0;                            // predicted; 0: no machine file
};

class Trainer {
 public:
  // Opens the data, builds the engine and starts or resumes. Collective over the world.
  // watchdog: of the run. deck: the effective deck, which goes into the run's directory
  // and each checkpoint. gpu: this rank's, if the mesh is one of GPUs. planned: for the
  // log and the metrics. All but these three outlive this.
  Trainer(comm::World& world, comm::Mesh& mesh, comm::Watchdog& watchdog,
          const config::RunConfig& config, const std::string& deck, const CudaDevice& gpu,
          const PlannedRun& planned = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains to run.steps. Returns done, or run_again when a signal or the time limit ended
  // the run after a checkpoint.
  Status run();

  std::int64_t steps_done() const { return progress_.step; }
  // Which names this start in memory copies; "": it makes none.
  std::string start_name() const { return checkpoints_->start_name(); }

 private:
  void open_data();
  void make_room_for_data();
  std::unique_ptr<io::SampleSource> open(const io::SourceConfig& config,
                                         const engine::SampleRoute& route,
                                         const char* index);
  void start(const CudaDevice& gpu);
  bool start_pairs();
  Status stop_before_first_step();
  void announce() const;
  void step();
  engine::StepResult train_step();
  void pass_over();
  std::int64_t say_passed_over(std::int64_t first);
  const engine::Batch& read_batch();
  void make_ready_to_save(bool saves);
  void validate();
  void write_samples();
  void say_cut_short(const char* what) const;

  comm::World& world_;
  comm::Mesh& mesh_;
  comm::Watchdog& watchdog_;
  config::RunConfig config_;
  std::string deck_;
  PlannedRun planned_;
  launch::BatchJob job_;  // on rank 0
  Progress progress_;
  std::int64_t source_bytes_ = 0;  // that this rank keeps
  std::int64_t said_until_ = 0;    // the last step that was said to be passed over
  std::optional<engine::SampleRoute> route_;
  std::unique_ptr<io::SampleSource> source_;
  std::optional<Validation> validation_;
  std::optional<TextSamples> samples_;
  std::optional<engine::Engine> engine_;
  // The parts of the loop, made by start().
  std::optional<Recorder> recorder_;
  std::optional<Checkpoints> checkpoints_;
  std::optional<Health> health_;
  std::optional<Dumps> dumps_;
  std::optional<Faults> faults_;
  std::optional<SlowHosts> slow_hosts_;  // on rank 0
  std::optional<engine::StepObservers> observers_;
  std::optional<References> references_;  // where pairs are learned from
  std::optional<Profiler> profiler_;
  // Null: stopped while references were computed, or nothing is to be done for pairs.
  std::optional<BatchLoader> loader_;
};

}  // namespace trireme::train
