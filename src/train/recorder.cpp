// Recorder: times of a step, and its line in metrics.jsonl.
// SPDX-License-Identifier: Apache-2.0
#include "train/recorder.hpp"

#include <algorithm>
#include <cmath>

#include "base/log.hpp"
#include "base/stopwatch.hpp"
#include "base/timeline.hpp"
#include "base/version.hpp"
#include "engine/run_outlook.hpp"
#include "engine/training_flops.hpp"
#include "io/deck_settings.hpp"
#include "io/run_lock.hpp"
#include "launch/device_peak.hpp"
#include "launch/machine_peak.hpp"

namespace trireme::train {
namespace {

io::Record loss_scale_record(const std::optional<optim::LossScaler>& scaler) {
  io::Record record;
  if (scaler)
    record.set("loss_scale", scaler->scale()).set("overflows", scaler->skipped());
  return record;
}

io::Record pairs_record(const nn::PreferenceSums& means) {
  using Sums = nn::PreferenceSums;
  const auto& values = means.values;
  return io::Record()
      .set("rewards_chosen", values[Sums::preferred])
      .set("rewards_rejected", values[Sums::other])
      .set("rewards_margin", values[Sums::preferred] - values[Sums::other])
      .set("rewards_accuracy", values[Sums::right])
      .set("logps_chosen", values[Sums::preferred_log])
      .set("logps_rejected", values[Sums::other_log]);
}

}  // namespace

PeakRates measure_peak(comm::World& world, Device device, const CudaDevice& gpu,
                       DType compute) {
  PeakRates rates;
  const std::int64_t size = gpu.emulated ? 64 : device.is_cuda() ? 4096 : 1024;
  world.barrier();
  rates.gemm = world.sum(launch::gemm_rate(compute, size, size, size, 0.1, device).best);
  const double dense = device.is_cuda() ? launch::dense_peak(gpu.name, compute) : 0;
  rates.by_data_sheet = world.max(dense > 0 ? 0 : 1) == 0;
  rates.peak = rates.by_data_sheet ? world.sum(dense) : rates.gemm;
  rates.seen = format("matrix products at the start, {}", io::utc_time());
  return rates;
}

void PeakRates::see(double rate, std::int64_t step) {
  if (rate <= peak) return;
  peak = rate;
  seen = format("step {}, {}", step, io::utc_time());
}

Recorder::Recorder(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
                   engine::Engine& engine, const CudaDevice& gpu, const PeakRates& peak,
                   Progress& progress)
    : world_(world),
      mesh_(mesh),
      config_(config),
      engine_(engine),
      progress_(progress),
      peak_(peak),
      gpu_name_(gpu.name),
      pipeline_times_(mesh, engine::pipeline_shape(config)),
      meter_(mesh),
      energy_(world, mesh.device().is_cuda(), gpu),
      of_all_steps_{schedule::live_microbatches(engine.schedule()),
                    engine::training_flops(config)} {
  if (world.rank() == 0) heartbeat_.emplace(config.metrics.heartbeat);
}

void Recorder::open_files(const std::string& deck) {
  const std::string& directory = config_.run.directory;
  metrics_.emplace(directory + "/metrics.jsonl", progress_.own_steps);
  std::vector<std::string> names = config_.metrics.trackers;
  if (config_.metrics.tensorboard &&
      std::find(names.begin(), names.end(), "tensorboard") == names.end())
    names.emplace_back("tensorboard");
  const std::string& store = config_.metrics.tracker_directory;
  trackers_.open(names, {config_.run.name, directory, store.empty() ? directory : store,
                         deck, io::deck_settings(deck), progress_.own_steps});
  sums_.saved = progress_.step;
  write("event", io::Record()
                     .set("step", progress_.step)
                     .set("event", std::string("start"))
                     .set("ranks", std::int64_t{world_.size()})
                     .set("host", io::this_process().host)
                     .set("version", std::string(build_info().version)));
}

void Recorder::write(const std::string& kind, const io::Record& record) {
  // Ranks that write no metrics say where the checkpoint is as well.
  if (kind == "checkpoint")
    for (const auto& [key, value] : record.numbers())
      if (key == "step") sums_.saved = static_cast<std::int64_t>(value);
  if (!metrics_) return;
  const io::Record line = io::metrics_line(kind, record);
  metrics_->write(line);
  if (kind != "event") trackers_.write(line);
}

// The part of the step that runs from now on adds its time to `sum`, and has a name in a
// profiler's timeline.
void Recorder::start(double& sum, const char* name) {
  stop();
  part_ = &sum;
  if (heartbeat_) heartbeat_->enter(name);
  part_start_ = Clock::now();
  part_range_.emplace(name);
}

void Recorder::stop() {
  if (part_ == nullptr) return;
  part_range_.reset();
  *part_ += seconds_since(part_start_);
  part_ = nullptr;
}

// Of whole sequences, in the step under way or recorded.
double Recorder::tokens_of_step() const {
  return static_cast<double>(config_.stage_of(step_).global * config_.model.sequence);
}

void Recorder::begin_step() {
  step_ = progress_.step + 1;
  const config::BatchStage stage = config_.stage_of(step_);
  if (stage.first_step == step_ && step_ > 1)
    log::info("step {}  the batch has {} sequences from now on, cut after {} tokens",
              step_, stage.global, stage.sequence);
  times_ = {};
  step_start_ = Clock::now();
  if (heartbeat_) heartbeat_->begin(step_);
  step_range_.emplace("step");
  Timeline::note("step", step_);
  part_range_.emplace("meters");
  meter_.begin();
  energy_.begin();
  moved_ = {engine_.store().offload_traffic(), engine_.activation_traffic()};
  start(times_.data, "data");
}

void Recorder::enter(engine::StepPhase phase, std::int64_t) {
  using engine::StepPhase;
  switch (phase) {
    case StepPhase::count:
      stop();
      part_range_.emplace("count of tokens");
      break;
    case StepPhase::compute: start(times_.compute, "forward and backward"); break;
    case StepPhase::reduce: start(times_.communication, "rest of the reductions"); break;
    case StepPhase::update: start(times_.optimizer, "optimizer"); break;
    case StepPhase::finished:
      stop();
      part_range_.emplace("meters");
      meter_.end();
      part_range_.reset();
      step_range_.reset();
      if (heartbeat_) heartbeat_->end();
      times_.total = seconds_since(step_start_);
  }
}

// What the host has measured is how long it took to fill the queue, and then to wait.
// From here on it adds up with the other ranks.
void Recorder::device_took(const engine::DeviceTimes& times) {
  stop();
  times_.compute = times.compute;
  times_.communication = times.reduce;
  times_.optimizer = times.update;
  start(times_.communication, "sums over ranks");
}

void Recorder::computed(engine::StepTotals::Outcome& mine) {
  for (int i = 0; i < memory_classes; ++i)
    mine.memory_peak +=
        static_cast<double>(memory_use(static_cast<MemoryClass>(i)).peak_bytes);
  mine.joules = energy_.take();
}

void Recorder::agreed(const engine::StepTotals::Outcome& all) {
  // Steps of a ramp are simulated by no schedule.
  if (config_.stage_of(progress_.step + 1).global == config_.batch.global)
    pipeline_times_.add(engine_.executor().times().action_seconds(),
                        engine_.totals().idle_shares());
  agreed_ = all;
}

// A plan's step is one of the whole batch, which those of a ramp are not.
io::Record Recorder::prediction() const {
  const bool whole = config_.stage_of(step_).global == config_.batch.global;
  io::Record record;
  if (progress_.predicted_seconds > 0 && whole)
    record.set("predicted_step_seconds", progress_.predicted_seconds);
  return record;
}

// Rates, memory and the parts of the step.
io::Record Recorder::times_record(double rate_of_flops) const {
  return io::Record()
      .set("step_seconds", times_.total)
      .set("tokens_per_second", tokens_of_step() / times_.total)
      .set("mfu", rate_of_flops / peak_.peak)
      .set("mfu_causal", rate_of_flops *
                             (of_all_steps_.flops.causal / of_all_steps_.flops.full) /
                             peak_.peak)
      .set("model_tflops", rate_of_flops * 1e-12)
      .set("peak_tflops", peak_.peak * 1e-12)
      .set("memory_peak_bytes", agreed_.memory_peak)
      .set("allocations", memory_allocations())
      .set("resident_bytes", resident_bytes())
      .set("data_seconds", times_.data)
      .set("compute_seconds", times_.compute)
      .set("communication_seconds", times_.communication)
      .set("optimizer_seconds", times_.optimizer)
      .append(prediction());
}

void Recorder::record(const engine::StepResult& result) {
  double& usual = progress_.step_seconds;
  usual = usual == 0 ? times_.total : 0.9 * usual + 0.1 * times_.total;
  const double rate_of_flops = tokens_of_step() / times_.total * of_all_steps_.flops.full;
  peak_.see(rate_of_flops, progress_.step);
  sums_.seconds += times_.total;
  sums_.tokens += result.tokens;
  sums_.loss = result.loss;
  const bool refused = result.update == engine::StepResult::Update::refused;
  if (metrics_) {
    write(
        "step",
        io::Record()
            .set("step", progress_.step)
            .set("loss", result.loss)
            .set("grad_norm", result.gradient_norm)
            .set("learning_rate", result.learning_rate)
            .set("tokens", progress_.tokens)
            .append(times_record(rate_of_flops))
            .append(accounts())
            .append(refused ? io::Record().set("skipped", std::int64_t{1}) : io::Record())
            .append(config_.learns_pairs() ? pairs_record(result.pairs) : io::Record())
            .append(loss_scale_record(engine_.scaler())));
  }
  const std::int64_t step = progress_.step;
  if (step % config_.metrics.every == 0 || step == config_.run.steps) print(result);
  show_progress(result);
}

void Recorder::record_validation(const Validation::Loss& validation) {
  const double loss = validation.mean;
  if (validation.right) {
    log::info("step {}  validation loss {}  right {} % of the pairs", progress_.step,
              fixed(loss, 4), fixed(100 * *validation.right, 1));
    return write("validation", io::Record()
                                   .set("step", progress_.step)
                                   .set("validation_loss", loss)
                                   .set("validation_accuracy", *validation.right));
  }
  log::info("step {}  validation loss {}  perplexity {}", progress_.step, fixed(loss, 4),
            fixed(std::exp(loss), 2));
  write("validation", io::Record()
                          .set("step", progress_.step)
                          .set("validation_loss", loss)
                          .set("validation_perplexity", std::exp(loss)));
}

}  // namespace trireme::train
