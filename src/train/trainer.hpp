// Trainer: the step loop, with validation, checkpoints, metrics and an orderly end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/cuda_devices.hpp"
#include "base/energy_meter.hpp"
#include "comm/traffic_meter.hpp"
#include "comm/watchdog.hpp"
#include "engine/engine.hpp"
#include "engine/step_totals.hpp"
#include "io/event_file.hpp"
#include "io/metrics.hpp"
#include "io/sample_source.hpp"
#include "launch/interruptions.hpp"
#include "train/batch_loader.hpp"
#include "train/pipeline_times.hpp"
#include "train/saver.hpp"
#include "train/step_guard.hpp"

namespace trireme::train {

// Times of one step on this rank, in seconds.
struct StepTimes {
  double data = 0;           // waiting for the loader
  double compute = 0;        // forward and backward
  double communication = 0;  // waiting for gradients: not hidden under backward
  double optimizer = 0;      // norm and update
  double total = 0;
};

class Trainer {
 public:
  // Opens the data, builds the engine and starts or resumes. Collective over the world.
  // deck: the effective deck, which goes into the run's directory and each checkpoint.
  // gpu: this rank's, if the mesh is one of GPUs.
  Trainer(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
          const std::string& deck, const CudaDevice& gpu);
  ~Trainer();

  // Trains to run.steps. Returns done, or run_again when a signal or the time limit ended
  // the run after a checkpoint.
  Status run();

  engine::Engine& engine() { return *engine_; }
  std::int64_t steps_done() const { return step_; }

 private:
  void open_data();
  void start_or_resume();
  void predict_save();
  void load(const std::string& from, bool verified, std::int64_t newest = -1);
  std::vector<io::TensorBox> boxes();
  void announce();
  void measure_peak();

  void step();
  const Batch& next_batch();
  double reduce_loss(double loss);
  bool step_is_sound(double loss, double own_loss, double norm);
  std::string find_culprits(double own_loss);
  std::vector<io::TensorBox> replicated_boxes();
  void compare_replicas();
  void remember_steps();
  void enter(const char* phase);
  // With fp16: whether the step may be used. Moves the loss scale.
  bool in_range(double loss, double norm);
  // Updates done: what the optimizer and its schedule count.
  std::int64_t updates() const { return step_ - (scaler_ ? scaler_->skipped() : 0); }
  void write_metrics(const io::Record& record);
  void record(double loss, double norm, double rate, const StepTimes& times);
  io::Record accounts();
  double tokens_of_rank() const;
  void report();
  void report_saved(const std::vector<Saved>& saved);
  void print(double loss, double norm, double rate, const StepTimes& times) const;
  void validate();
  double validation_loss();
  void train();
  void save();
  // The step after `step` that ends with a checkpoint by the deck; none: -1.
  std::int64_t next_checkpoint(std::int64_t step) const;
  std::string describe_next_checkpoint() const;
  void dump_gradients();
  void dump_samples();
  launch::TimeNeeded time_needed() const;
  std::string due_fault() const;
  void inject_fault();
  void inject_fault(double& loss);

  comm::World& world_;
  comm::Mesh& mesh_;
  config::RunConfig config_;
  std::string deck_;
  std::unique_ptr<io::SampleSource> source_, validation_source_;
  std::optional<engine::Engine> engine_;
  std::optional<optim::LossScaler> scaler_;  // with fp16
  std::optional<Saver> saver_;
  std::optional<BatchLoader> loader_;
  std::optional<io::MetricsFile> metrics_;  // on rank 0
  std::optional<io::EventFile> events_;     // on rank 0, for TensorBoard
  std::optional<comm::Watchdog> watchdog_;
  engine::StepTotals totals_;
  PipelineTimes pipeline_times_;
  comm::TrafficMeter meter_;         // of the steps
  optim::OffloadTraffic offloaded_;  // before this step
  Buffer validation_batch_;          // inputs and targets of one microbatch

  std::int64_t step_ = 0;    // optimizer steps done
  std::int64_t tokens_ = 0;  // trained on
  std::int64_t saved_step_ = -1;
  std::int64_t first_step_ = 0;  // of this start
  StepGuard guard_;
  bool skipped_ = false;  // the last step's update
  launch::BatchJob job_;  // on rank 0
  launch::Interruptions interruptions_;
  launch::StopRequest stop_request_ = launch::StopRequest::none;  // of the last step
  std::int64_t live_microbatches_ = 0;
  double memory_peak_ = 0;         // bytes, of the rank that held most
  double peak_flops_ = 0;          // of all ranks
  double gemm_flops_ = 0;          // of all ranks, measured
  bool peak_is_dense_ = false;     // by the data sheet of all their GPUs
  CudaDevice gpu_;                 // of this rank, if it computes on one
  EnergyMeter energy_;             // of that GPU
  std::optional<double> joules_;   // its counter before this step
  double save_seconds_ = 0;        // of the last checkpoint, or predicted
  double validation_seconds_ = 0;  // of the last validation
  double usual_seconds_ = 0;       // of a step, smoothed
};

}  // namespace trireme::train
