// Recorder: what a run tells of its steps: times, rates, traffic, memory, energy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/cuda_devices.hpp"
#include "base/trace_range.hpp"
#include "comm/mesh.hpp"
#include "comm/traffic_meter.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "engine/engine.hpp"
#include "engine/step.hpp"
#include "io/metrics.hpp"
#include "io/trackers.hpp"
#include "train/heartbeat.hpp"
#include "train/pipeline_times.hpp"
#include "train/progress.hpp"
#include "train/step_energy.hpp"
#include "train/text_samples.hpp"
#include "train/validation.hpp"

namespace trireme::train {

// Times of one step on this rank, in seconds.
struct StepTimes {
  double data = 0;           // waiting for the loader
  double compute = 0;        // forward and backward
  double communication = 0;  // waiting for gradients: not hidden under backward
  double optimizer = 0;      // norm and update
  double total = 0;
};

// Bytes that were moved off the device and back since the start.
struct Moved {
  optim::OffloadTraffic state{};
  engine::ActivationTraffic activations{};
};

// Peak rates of all ranks together, in FLOP/s: what MFU is divided by.
struct PeakRates {
  double peak = 0;             // the best rate seen, so that no share is above 1
  double gemm = 0;             // measured at start
  bool by_data_sheet = false;  // `peak` is that of all their GPUs
  std::string seen;            // what reached `peak`, and when

  // A step that was faster raises the peak.
  void see(double rate, std::int64_t step);
};

// All ranks at once: they share the machine. A GPU's peak is its vendor's figure, where
// it is known. Collective over the world.
PeakRates measure_peak(comm::World& world, Device device, const CudaDevice& gpu,
                       DType compute);

class Recorder : public engine::StepObserver {
 public:
  // gpu: this rank's, if the mesh is one of GPUs. All outlive this.
  Recorder(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
           engine::Engine& engine, const CudaDevice& gpu, const PeakRates& peak,
           Progress& progress);

  // On rank 0: the files of the run's directory, which go on after the step done. deck:
  // the effective one.
  void open_files(const std::string& deck);
  // A line of metrics.jsonl, and what trackers show of it. kind: "step", "validation",
  // "checkpoint", "samples" or "event".
  void write(const std::string& kind, const io::Record& record);
  // The FLOPs of a token, and what they are divided by, in the log.
  void announce() const;

  // A step begins, with reading its data.
  void begin_step();
  void enter(engine::StepPhase phase, std::int64_t step) override;
  void device_took(const engine::DeviceTimes& times) override;
  void computed(engine::StepTotals::Outcome& mine) override;
  void agreed(const engine::StepTotals::Outcome& all) override;
  // The metrics of a step, and its line in the log when one is due.
  void record(const engine::StepResult& result);
  void record_validation(const Validation::Loss& validation);
  void record_samples(const std::vector<TextSamples::Sample>& samples);
  // At the end of the run: means over its steps, in the log. Collective over the mesh.
  void report();
  // The last line: what was done, how fast, and where to look. Ends the trackers.
  void finish(Status status);

 private:
  using Clock = std::chrono::steady_clock;

  void start(double& sum, const char* name);
  void stop();
  io::Record accounts() const;
  double tokens_of_step() const;
  io::Record times_record(double flops) const;
  io::Record prediction() const;
  void print(const engine::StepResult& result) const;
  void show_progress(const engine::StepResult& result) const;

  comm::World& world_;
  comm::Mesh& mesh_;
  const config::RunConfig& config_;
  engine::Engine& engine_;
  Progress& progress_;
  PeakRates peak_;
  std::string gpu_name_;
  std::optional<io::MetricsFile> metrics_;  // on rank 0
  io::Trackers trackers_;                   // on rank 0
  std::optional<Heartbeat> heartbeat_;
  PipelineTimes pipeline_times_;
  comm::TrafficMeter meter_;  // of the steps
  Moved moved_;               // before this step
  StepEnergy energy_;
  struct OfAllSteps {
    std::int64_t live_microbatches = 0;
    model::FlopsPerToken flops;  // of a token
  } of_all_steps_;
  engine::StepTotals::Outcome agreed_;  // by the ranks, of this step
  StepTimes times_;                     // of this step
  struct Sums {
    double seconds = 0;       // of all steps since the start
    std::int64_t tokens = 0;  // of these
    double loss = 0;          // of the last
    std::int64_t saved = 0;   // step of the last checkpoint
  } sums_;
  std::int64_t step_ = 1;  // that is under way, or was recorded
  Clock::time_point step_start_, part_start_;
  double* part_ = nullptr;  // of times_: what runs now is added to it
  std::optional<TraceRange> step_range_, part_range_;
};

}  // namespace trireme::train
