// Checkpoints: where a run starts from, when it saves, and why it stops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "convert/kept_files.hpp"
#include "engine/engine.hpp"
#include "engine/step.hpp"
#include "io/metrics.hpp"
#include "launch/stop_requests.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/partner_copies.hpp"
#include "train/progress.hpp"
#include "train/saver.hpp"

namespace trireme::train {

class Checkpoints : public engine::StepObserver {
 public:
  // deck: the effective deck, which goes into each checkpoint. job: of the batch system,
  // on rank 0. record: takes what a checkpoint took, on rank 0. All outlive this.
  Checkpoints(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
              const std::string& deck, engine::Engine& engine, comm::Watchdog& watchdog,
              const launch::BatchJob& job, Progress& progress,
              std::function<void(const io::Record&)> record);

  // Makes the run's directory. Fills the engine from a checkpoint, or with initial
  // weights, and `progress` with it. Collective over the world.
  void start_or_resume();

  // After a step: reports what has been saved by now. Throws when that failed.
  void poll();
  // Whether save_if_due() will save, or copy to a partner. The same on all ranks.
  bool saves_now() const;
  // Saves when that is due. Collective over the world.
  void save_if_due();
  // After the last step: waits for what is under way, and then removes copies, of which a
  // checkpoint is saved first where no step was done since. Collective over the world.
  void finish();
  // Because of an error: the checkpoint under way is as good as before.
  void finish_quietly();
  // An injected fault: Saver::inject().
  void inject(config::FaultKind kind) { saver_->inject(kind); }

  // Between two parts of what is computed before the first step, the next of which takes
  // `seconds`: whether the run ends here. Collective over the world.
  bool stops_before(double seconds);
  // Between two parts of what is computed behind a step, each about as long as a step:
  // whether the run ends after this step, for which a checkpoint still has to fit.
  // Collective over the world.
  bool stops_meanwhile();
  // Whether the run ends before its last step, and why.
  bool stops() const { return launch::stops(request_); }
  std::string_view reason() const { return launch::reason(request_); }
  // Which names this start in memory copies; "": it makes none.
  std::string start_name() const { return partner_ ? partner_->attempt() : ""; }
  // "the next checkpoint is due after step 100", for the log.
  std::string describe_next() const;

  void enter(engine::StepPhase phase, std::int64_t step) override;
  void computed(engine::StepTotals::Outcome& mine) override;
  void agreed(const engine::StepTotals::Outcome& all) override;
  void before_update() override;

 private:
  void load(const ChosenCheckpoint& chosen);
  void load_start();
  void load_base();
  ChosenCheckpoint choose();
  void keep_files(const io::CheckpointReader* from);
  void copy_if_due();
  // Whether the state is the one that the run went on from, and only copies have it.
  bool only_in_copies() const {
    return progress_.step == step_of_copies_ && saved_step_ != step_of_copies_;
  }
  std::vector<io::TensorBox> boxes();
  void predict_save();
  void save();
  void report(const std::vector<Saved>& saved);
  std::int64_t next_after(std::int64_t step) const;
  launch::TimeNeeded time_needed() const;
  std::string folder() const { return config_.run.directory + "/checkpoints"; }

  comm::World& world_;
  comm::Mesh& mesh_;
  const config::RunConfig& config_;
  const std::string& deck_;
  engine::Engine& engine_;
  comm::Watchdog& watchdog_;
  Progress& progress_;
  std::function<void(const io::Record&)> record_;
  launch::StopRequests stop_requests_;
  launch::StopRequest request_ = launch::StopRequest::none;  // of the last step
  std::int64_t saved_step_ = -1;
  std::int64_t step_of_copies_ = -1;  // that the run went on from; -1: from none
  std::string base_;      // the digest of the model beside adapters that are codes
  bool started_ = false;  // from a checkpoint, or copies of one
  std::vector<convert::KeptFile> kept_;  // on rank 0: of the folder the model came from
  std::optional<Saver> saver_;
  std::optional<PartnerCopies> partner_;
};

}  // namespace trireme::train
