// Trainer: start, step loop and end.
// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "base/log.hpp"
#include "base/trace_range.hpp"
#include "config/precision.hpp"
#include "engine/run_outlook.hpp"
#include "io/files.hpp"
#include "launch/device_peak.hpp"
#include "launch/machine_peak.hpp"
#include "optim/learning_rate.hpp"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Adds the seconds of its life to a sum, and names it in a profiler's timeline.
class Timer {
 public:
  Timer(double& sum, const char* name) : sum_(sum), range_(name) {}
  ~Timer() { sum_ += seconds_since(start_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& sum_;
  TraceRange range_;
  Clock::time_point start_ = Clock::now();
};

// One line of memory by class, on rank 0.
template <class F>
void log_memory(const char* title, const F& bytes_of) {
  std::string text;
  for (int i = 0; i < memory_classes; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    text += format("{} {} {}", i ? "," : "", name_of(c),
                   human_bytes(static_cast<double>(bytes_of(memory_use(c)))));
  }
  log::info("{} {} (rank 0)", title, text);
}

}  // namespace

Trainer::Trainer(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
                 const std::string& deck, const CudaDevice& gpu)
    : world_(world),
      mesh_(mesh),
      config_(config),
      deck_(deck),
      totals_(mesh, Device::host()),
      pipeline_times_(mesh, engine::pipeline_shape(config)),
      meter_(mesh),
      guard_(config.health.steps),
      job_(world.rank() == 0 ? launch::batch_job() : launch::BatchJob{}),
      interruptions_(config.run.directory, config.run.time_limit, job_,
                     world.rank() == 0),
      gpu_(gpu),
      energy_(gpu.pci_bus_id) {
  world_.set_timeout(config_.health.timeout_seconds);
  comm::check_collectives(config_.debug.check_collectives);
  open_data();
  watchdog_.emplace(world_, comm::WatchdogConfig{config_.health.watchdog_seconds,
                                                 config_.health.slow_factor,
                                                 config_.run.directory + "/flight"});
  watchdog_->beat_slow("starting");
  engine_.emplace(config_, mesh_, mesh_.device());
  if (config_.precision.compute == DType::f16)
    scaler_.emplace(config_.precision.loss_scale);
  live_microbatches_ = live_microbatches(engine_->schedule());
  measure_peak();
  start_or_resume();
  first_step_ = step_;
  loader_.emplace(*source_,
                  BatchLoaderConfig{.seed = config_.run.seed,
                                    .global = config_.batch.global,
                                    .micro = config_.batch.micro,
                                    .microbatches = config_.microbatches(),
                                    .data_rank = mesh_.coordinate(comm::Axis::data),
                                    .data_ranks = config_.parallel.mesh.data,
                                    .sequence = config_.model.sequence,
                                    .positions = engine_->positions(),
                                    .first_step = step_ + 1});
  announce();
}

Trainer::~Trainer() = default;

void Trainer::open_data() {
  world_.agree([&] {
    source_ = io::open_source(config_.data);
    if (config_.metrics.validate_every > 0) {
      validation_source_ = io::open_source(config_.validation);
    }
  });
  if (!validation_source_) return;
  validation_batch_ = Buffer(
      Device::host(), DType::i32,
      {2 * config_.batch.micro * config_.model.sequence / config_.parallel.mesh.context +
       config_.model.sequence + 1},
      MemoryClass::data, "validation batch");
}

// All ranks at once: they share the machine. A GPU's peak is its vendor's figure, where
// it is known; the measured rate is printed beside it.
void Trainer::measure_peak() {
  const Device device = mesh_.device();
  const std::int64_t size = gpu_.emulated ? 64 : device.is_cuda() ? 4096 : 1024;
  const DType compute = config_.precision.compute;
  world_.barrier();
  gemm_flops_ =
      world_.sum(launch::gemm_rate(compute, size, size, size, 0.1, device).best);
  const double dense = device.is_cuda() ? launch::dense_peak(gpu_.name, compute) : 0;
  peak_is_dense_ = world_.max(dense > 0 ? 0 : 1) == 0;
  peak_flops_ = peak_is_dense_ ? world_.sum(dense) : gemm_flops_;
}

void Trainer::announce() {
  const auto flops = model::flops_per_token(config_.model);
  if (!job_.id.empty()) log::info("job       {}", job_.describe());
  log::info("data      {}", source_->describe());
  if (validation_source_) log::info("validate  {}", validation_source_->describe());
  log::info("saves     {}", describe_next_checkpoint());
  const std::string_view compute = name_of(config_.precision.compute);
  log::info(
      "flops     {} per token = 6 N + 12 L D S (causal half of attention: {}); mfu is "
      "divided by the {} in {}: {}FLOP/s",
      human_count(flops.full), human_count(flops.causal),
      peak_is_dense_ ? format("dense peak of {} x {}", world_.size(), gpu_.name)
                     : std::string("GEMM rate measured now"),
      compute, human_count(peak_flops_));
  if (peak_is_dense_)
    log::info("gemm      {}FLOP/s measured now in {}, {} % of that peak",
              human_count(gemm_flops_), compute,
              fixed(100 * gemm_flops_ / peak_flops_, 1));
  log_memory("allocated", [](const MemoryUse& use) { return use.bytes; });
}

Status Trainer::run() {
  if (step_ >= config_.run.steps) {
    log::info("nothing to do: {} of {} steps are done", step_, config_.run.steps);
    return Status::done;
  }
  try {
    train();
  } catch (const comm::Agreed&) {  // the checkpoint under way is as good as before
    saver_->finish_quietly();
    throw;
  }
  log_memory("peak     ", [](const MemoryUse& use) { return use.peak_bytes; });
  report();
  if (step_ < config_.run.steps) {
    log::info(
        "stopped after step {} by {}, with a checkpoint; run the same command again",
        step_, reason(stop_request_));
    world_.barrier();  // srun may kill the others when the first one leaves with this
                       // status
    return Status::run_again;
  }
  return Status::done;
}

void Trainer::train() {
  while (step_ < config_.run.steps && !stops(stop_request_)) {
    step();
    report_saved(saver_->poll());
    const bool last = step_ == config_.run.steps;
    if (config_.metrics.validate_every > 0 &&
        (last || step_ % config_.metrics.validate_every == 0)) {
      validate();
    }
    if (saves(stop_request_) || next_checkpoint(step_ - 1) == step_) save();
    if (!stops(stop_request_)) interruptions_.fulfilled(stop_request_);
  }
  watchdog_->beat_slow("saving a checkpoint", step_);
  report_saved(saver_->finish());
  if (stops(stop_request_)) interruptions_.fulfilled(stop_request_);
}

void Trainer::step() {
  StepTimes times;
  double loss = 0, own_loss = 0, norm = 0, rate = 0;
  const double scale = scaler_ ? scaler_->scale() : 1.0;
  {
    const Timer total(times.total, "step");
    enter("training step");
    inject_fault();
    meter_.begin();
    joules_ = energy_.joules();
    offloaded_ = engine_->store().offload_traffic();
    // 1. data
    const Batch* batch = nullptr;
    {
      const Timer timer(times.data, "data");
      batch = &next_batch();
    }
    // Losses and gradients are means over the real tokens of the global batch.
    const double valid = totals_.tokens(static_cast<double>(batch->valid_tokens));
    // 2. forward and backward; buckets are reduced as they fill
    optim::ParameterStore& store = engine_->store();
    {
      const Timer timer(times.compute, "forward and backward");
      engine_->begin_step(fp8_report_due(config_.precision, step_ + 1));
      loss = engine_->run(batch->inputs, batch->targets, 1.0 / valid, scale) / valid;
    }
    // 3. what is left of the reductions
    {
      const Timer timer(times.communication, "rest of the reductions");
      engine_->finish_step();
      Stream(mesh_.device()).synchronize();
      inject_fault(loss);
      own_loss = loss;
      loss = reduce_loss(loss);
    }
    // 4. clip and update
    const Timer timer(times.optimizer, "optimizer");
    norm = store.gradient_norm() / scale;
    dump_gradients();
    const std::int64_t update = updates() + 1;
    rate = optim::learning_rate(config_.optimizer, update);
    if (in_range(loss, norm) && step_is_sound(loss, own_loss, norm)) {
      const double clip = config_.optimizer.clip;
      const double factor = clip > 0 && norm > clip ? clip / norm : 1.0;
      saver_->before_update();
      engine_->update(rate, factor / scale, update);
    } else {
      store.clear_gradients();
    }
    engine_->finish_stored_report();
    Stream(mesh_.device()).synchronize();  // so that the times are the device's
    ++step_;
    tokens_ += static_cast<std::int64_t>(valid);
    meter_.end();
  }
  compare_replicas();
  record(loss, norm, rate, times);
}

const Batch& Trainer::next_batch() {
  enter("reading data");
  const Batch& batch = loader_->next();
  dump_samples();
  enter("training step");
  return batch;
}

// Sums the loss over replicas and stages; agrees on a checkpoint or stop after this step,
// on the most memory that any rank has held and on the idle shares of the pipeline.
double Trainer::reduce_loss(double loss) {
  engine::StepTotals::Outcome mine;
  mine.loss = loss;
  mine.stop_request =
      static_cast<int>(interruptions_.request(time_needed(), stop_request_));
  for (int i = 0; i < memory_classes; ++i) {
    mine.memory_peak +=
        static_cast<double>(memory_use(static_cast<MemoryClass>(i)).peak_bytes);
  }
  const auto all =
      totals_.finish(mine, {engine_->run_seconds(), engine_->busy_seconds()});
  pipeline_times_.add(engine_->action_seconds(), totals_.idle_shares());
  stop_request_ = static_cast<launch::StopRequest>(all.stop_request);
  memory_peak_ = all.memory_peak;
  return all.loss;
}

// The first step of a start sets up what later ones find: it may take longer.
void Trainer::enter(const char* phase) {
  if (step_ == first_step_)
    watchdog_->beat_slow(phase, step_);
  else
    watchdog_->beat(phase, step_);
}

launch::TimeNeeded Trainer::time_needed() const {
  const std::int64_t every = config_.metrics.validate_every;
  const bool validates = every > 0 && (step_ + 2) % every <= 1;  // this step or the next
  return {usual_seconds_, save_seconds_, validates ? validation_seconds_ : 0.0};
}

bool Trainer::in_range(double loss, double norm) {
  if (!scaler_) return true;
  if (std::isfinite(loss) && std::isfinite(norm)) {
    scaler_->succeeded();
    return true;
  }
  const double scale = scaler_->scale();
  if (!scaler_->overflowed())
    throw comm::Agreed(
        Status::diverged,
        format(
            "step {}: fp16 overflows (loss {}, gradient norm {}) at a loss scale of {}, "
            "the lowest: train with precision.compute = \"bf16\", or resume from the "
            "last checkpoint with a lower optimizer.learning_rate",
            step_ + 1, loss, norm, scale));
  log::info("step {}: overflow at a loss scale of {}; the update is skipped", step_ + 1,
            scale);
  return false;
}

}  // namespace trireme::train
