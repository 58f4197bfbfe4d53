// Recorder: metrics, the log's line of a step, the report at the end.
// SPDX-License-Identifier: Apache-2.0
#include "train/recorder.hpp"

#include <cmath>
#include <cstdio>

#include "base/log.hpp"
#include "base/text_table.hpp"
#include "engine/run_outlook.hpp"
#include "launch/device_peak.hpp"
#include "launch/machine_peak.hpp"

namespace trireme::train {
namespace {

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

std::string pad(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

io::Record loss_scale_record(const std::optional<optim::LossScaler>& scaler) {
  io::Record record;
  if (scaler)
    record.set("loss_scale", scaler->scale()).set("overflows", scaler->skipped());
  return record;
}

io::Record pairs_record(const nn::PreferenceSums& means) {
  using Sums = nn::PreferenceSums;
  const auto& of = means.values;
  return io::Record()
      .set("rewards_chosen", of[Sums::preferred])
      .set("rewards_rejected", of[Sums::other])
      .set("rewards_margin", of[Sums::preferred] - of[Sums::other])
      .set("rewards_accuracy", of[Sums::right])
      .set("logps_chosen", of[Sums::preferred_log])
      .set("logps_rejected", of[Sums::other_log]);
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

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
  return rates;
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
      energy_(gpu.pci_bus_id),
      live_microbatches_(schedule::live_microbatches(engine.schedule())) {}

void Recorder::open_files() {
  metrics_.emplace(config_.run.directory + "/metrics.jsonl", progress_.step);
  if (config_.metrics.tensorboard)
    events_.emplace(config_.run.directory + "/tensorboard", progress_.step);
}

void Recorder::write(const io::Record& record) {
  if (!metrics_) return;
  metrics_->write(record);
  if (events_) events_->write(record);
}

void Recorder::announce() const {
  const auto flops = model::flops_per_token(config_.model);
  const std::string_view compute = name_of(config_.precision.compute);
  log::info(
      "flops     {} per token = 6 N + 12 L D S (causal half of attention: {}); mfu is "
      "divided by the {} in {}: {}FLOP/s",
      human_count(flops.full), human_count(flops.causal),
      peak_.by_data_sheet ? format("dense peak of {} x {}", world_.size(), gpu_name_)
                          : std::string("GEMM rate measured now"),
      compute, human_count(peak_.peak));
  if (peak_.by_data_sheet)
    log::info("gemm      {}FLOP/s measured now in {}, {} % of that peak",
              human_count(peak_.gemm), compute, fixed(100 * peak_.gemm / peak_.peak, 1));
}

// The part of the step that runs from now on adds its time to `sum`, and has a name in a
// profiler's timeline.
void Recorder::start(double& sum, const char* name) {
  stop();
  part_ = &sum;
  part_start_ = Clock::now();
  part_range_.emplace(name);
}

void Recorder::stop() {
  if (part_ == nullptr) return;
  part_range_.reset();
  *part_ += std::chrono::duration<double>(Clock::now() - part_start_).count();
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
  step_range_.emplace("step");
  meter_.begin();
  joules_ = energy_.joules();
  offloaded_ = engine_.store().offload_traffic();
  start(times_.data, "data");
}

void Recorder::enter(engine::StepPhase phase, std::int64_t) {
  using engine::StepPhase;
  switch (phase) {
    case StepPhase::count: stop(); break;
    case StepPhase::compute: start(times_.compute, "forward and backward"); break;
    case StepPhase::reduce: start(times_.communication, "rest of the reductions"); break;
    case StepPhase::update: start(times_.optimizer, "optimizer"); break;
    case StepPhase::finished:
      stop();
      meter_.end();
      step_range_.reset();
      times_.total = std::chrono::duration<double>(Clock::now() - step_start_).count();
  }
}

void Recorder::computed(engine::StepTotals::Outcome& mine) {
  for (int i = 0; i < memory_classes; ++i)
    mine.memory_peak +=
        static_cast<double>(memory_use(static_cast<MemoryClass>(i)).peak_bytes);
}

void Recorder::agreed(const engine::StepTotals::Outcome& all) {
  // Steps of a ramp are simulated by no schedule.
  if (config_.stage_of(progress_.step + 1).global == config_.batch.global)
    pipeline_times_.add(engine_.times().action_seconds(), engine_.totals().idle_shares());
  memory_peak_ = all.memory_peak;
}

void Recorder::record(const engine::StepResult& result) {
  const auto flops = model::flops_per_token(config_.model);
  const double tokens = tokens_of_step();
  const double tokens_per_second = tokens / times_.total;
  double& usual = progress_.step_seconds;
  usual = usual == 0 ? times_.total : 0.9 * usual + 0.1 * times_.total;
  const bool refused = result.update == engine::StepResult::Update::refused;
  if (metrics_) {
    write(
        io::Record()
            .set("step", progress_.step)
            .set("loss", result.loss)
            .set("grad_norm", result.gradient_norm)
            .set("learning_rate", result.learning_rate)
            .set("tokens", progress_.tokens)
            .set("step_seconds", times_.total)
            .set("tokens_per_second", tokens_per_second)
            .set("mfu", tokens_per_second * flops.full / peak_.peak)
            .set("mfu_causal", tokens_per_second * flops.causal / peak_.peak)
            .set("model_tflops", tokens_per_second * flops.full * 1e-12)
            .set("memory_peak_bytes", memory_peak_)
            .set("allocations", memory_allocations())
            .set("resident_bytes", resident_bytes())
            .set("data_seconds", times_.data)
            .set("compute_seconds", times_.compute)
            .set("communication_seconds", times_.communication)
            .set("optimizer_seconds", times_.optimizer)
            .append(accounts())
            .append(refused ? io::Record().set("skipped", std::int64_t{1}) : io::Record())
            .append(config_.learns_pairs() ? pairs_record(result.pairs) : io::Record())
            .append(loss_scale_record(engine_.scaler())));
  }
  const std::int64_t step = progress_.step;
  if (step % config_.metrics.every == 0 || step == config_.run.steps) print(result);
}

void Recorder::print(const engine::StepResult& result) const {
  const auto flops = model::flops_per_token(config_.model);
  const double tokens = tokens_of_step();
  const double rate_of_flops = tokens / times_.total * flops.full;
  const std::string of = std::to_string(config_.run.steps);
  const double left =
      progress_.step_seconds * static_cast<double>(config_.run.steps - progress_.step);
  std::string pairs;
  if (config_.learns_pairs()) {
    const auto& means = result.pairs.values;
    pairs = format(
        "  margin {}  right {} %",
        fixed(means[nn::PreferenceSums::preferred] - means[nn::PreferenceSums::other], 3),
        fixed(100 * means[nn::PreferenceSums::right], 1));
  }
  log::info(
      "step {}/{}  loss {}{}  norm {}  lr {}  {} tok/s  {}FLOP/s  mfu {} %  left {}",
      pad(std::to_string(progress_.step), of.size()), of, pad(fixed(result.loss, 4), 8),
      pairs, pad(fixed(result.gradient_norm, 3), 8), scientific(result.learning_rate),
      pad(human_count(tokens / times_.total), 6), pad(human_count(rate_of_flops), 6),
      pad(fixed(100 * rate_of_flops / peak_.peak, 1), 4), human_seconds(left));
}

void Recorder::record_validation(const Validation::Loss& of) {
  const double loss = of.mean;
  if (of.right) {
    log::info("step {}  validation loss {}  right {} % of the pairs", progress_.step,
              fixed(loss, 4), fixed(100 * *of.right, 1));
    return write(io::Record()
                     .set("step", progress_.step)
                     .set("validation_loss", loss)
                     .set("validation_accuracy", *of.right));
  }
  log::info("step {}  validation loss {}  perplexity {}", progress_.step, fixed(loss, 4),
            fixed(std::exp(loss), 2));
  write(io::Record()
            .set("step", progress_.step)
            .set("validation_loss", loss)
            .set("validation_perplexity", std::exp(loss)));
}

// At the end of the run: means over its steps. Collective.
void Recorder::report() {
  if (meter_.laps() == 0) return;
  const IdleShares idle =
      pipeline_times_.compare(engine_.activation_shape(), config_.precision.compute);
  if (!log::speaks()) return;
  const auto print = [](const std::string& title, std::string table) {
    if (table.empty()) return;
    table.pop_back();
    log::line(title + "\n" + table);
  };
  print("traffic   a step of rank 0",
        engine::traffic_table(engine::all_laps(meter_), meter_.laps(), true));
  if (const auto& graphs = engine_.graphs())
    log::info("graphs    {} recorded on rank 0, launched {} times", graphs->recorded(),
              graphs->launched());
  if (idle.measured.empty()) return;
  std::vector<TextRow> rows = {{"rank", "blocks", "idle", "simulated", "live"}};
  const auto outlook = engine::pipeline_outlook(config_);
  for (std::size_t r = 0; r < outlook.size(); ++r) {
    rows.push_back({std::to_string(r), engine::describe_blocks(outlook[r]),
                    percent(idle.measured[r]), percent(idle.simulated[r]),
                    std::to_string(outlook[r].live_microbatches)});
  }
  print("pipeline  idle share of a step (of the last " +
            std::to_string(PipelineTimes::most_steps) + "), and microbatches held",
        text_table(rows, 2, 2));
}

}  // namespace trireme::train
