// Trainer: start, step loop and end.
// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include "base/log.hpp"
#include "comm/one_time.hpp"
#include "io/files.hpp"
#include "text/text_source.hpp"

namespace trireme::train {
namespace {

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
      job_(world.rank() == 0 ? launch::batch_job() : launch::BatchJob{}) {
  world_.set_timeout(config_.health.timeout_seconds);
  comm::check_collectives(config_.debug.check_collectives);
  open_data();
  watchdog_.emplace(world_, comm::WatchdogConfig{config_.health.watchdog_seconds,
                                                 config_.health.slow_factor,
                                                 config_.run.directory + "/flight"});
  watchdog_->beat_slow("starting");
  engine_.emplace(config_, mesh_, mesh_.device());
  start(gpu);
  if (config_.learns_pairs()) start_pairs();
  loader_.emplace(
      *source_,
      BatchLoaderConfig{
          .seed = config_.run.seed,
          .global = config_.batch.global,
          .micro = config_.batch.micro,
          .microbatches = config_.microbatches(),
          .data_rank = mesh_.coordinate(comm::Axis::data),
          .data_ranks = config_.parallel.mesh.data,
          .sequence = config_.model.sequence,
          .positions = engine_->positions(),
          .first_step = progress_.step + 1,
          .documents = engine::document_rule(config_.data, *source_, config_.model.window,
                                             !config_.batch.sequence_ramp.empty()),
          .stages = config_.stages(),
          .references = references_ ? &references_->training() : nullptr});
  announce();
}

void Trainer::open_data() {
  world_.agree([&] {
    source_ = text::open_source(config_.data);
    engine::document_rule(config_.data, *source_,
                          0);  // complains here, on all ranks alike
    validation_.emplace(config_);
    samples_.emplace(config_);
  });
}

// Makes the parts of the loop, and starts from a checkpoint or from initial weights.
void Trainer::start(const CudaDevice& gpu) {
  recorder_.emplace(world_, mesh_, config_, *engine_, gpu,
                    measure_peak(world_, mesh_.device(), gpu, config_.precision.compute),
                    progress_);
  checkpoints_.emplace(world_, mesh_, config_, deck_, *engine_, *watchdog_, job_,
                       progress_,
                       [this](const io::Record& record) { recorder_->write(record); });
  health_.emplace(world_, mesh_, config_, *engine_, *watchdog_, progress_);
  dumps_.emplace(world_, mesh_, config_, *engine_, *source_);
  faults_.emplace(config_.debug.fault, world_.rank(), *engine_, mesh_,
                  [this] { checkpoints_->slow_copies(); });
  // Faults come first, so that the others see what they have done.
  observers_.emplace(std::vector<engine::StepObserver*>{
      &*faults_, &*recorder_, &*checkpoints_, &*dumps_, &*health_});
  checkpoints_->start_or_resume();
  progress_.first_step = progress_.step;
  health_->remember_steps();
  comm::first_rank_then_others(world_, config_.health.timeout_seconds, [&] {
    io::write_text_atomically(config_.run.directory + "/deck.toml", deck_);
    recorder_->open_files();
  });
}

// What the model at the start makes of all answers, which the pairs are held against.
void Trainer::start_pairs() {
  references_.emplace(config_, world_, mesh_, *engine_, [this] {
    watchdog_->beat("log-probabilities of the reference", progress_.step);
  });
  references_->start(progress_.step, *source_, *validation_);
}

void Trainer::announce() const {
  if (!job_.id.empty()) log::info("job       {}", job_.describe());
  log::info("data      {}", source_->describe());
  if (validation_->source() != nullptr)
    log::info("validate  {}", validation_->source()->describe());
  log::info("saves     {}", checkpoints_->describe_next());
  recorder_->announce();
  log_memory("allocated", [](const MemoryUse& use) { return use.bytes; });
}

Status Trainer::run() {
  if (progress_.step >= config_.run.steps) {
    log::info("nothing to do: {} of {} steps are done", progress_.step,
              config_.run.steps);
    return Status::done;
  }
  try {
    while (progress_.step < config_.run.steps && !checkpoints_->stops()) step();
    checkpoints_->finish();
  } catch (const comm::Agreed&) {
    checkpoints_->finish_quietly();
    throw;
  }
  log_memory("peak     ", [](const MemoryUse& use) { return use.peak_bytes; });
  recorder_->report();
  if (progress_.step == config_.run.steps) return Status::done;
  log::info("stopped after step {} by {}, with a checkpoint; run the same command again",
            progress_.step, checkpoints_->reason());
  world_
      .barrier();  // srun may kill the others when the first one leaves with this status
  return Status::run_again;
}

void Trainer::step() {
  health_->beat("training step");
  faults_->before_step(progress_.step + 1);
  recorder_->begin_step();
  const engine::StepResult result = engine_->train_step(read_batch(), *observers_);
  progress_.step = result.step;
  progress_.tokens += result.tokens;
  health_->check_replicas();
  recorder_->record(result);
  checkpoints_->poll();
  if (validation_->due(progress_.step)) validate();
  if (samples_->due(progress_.step)) write_samples();
  checkpoints_->save_if_due();
}

const engine::Batch& Trainer::read_batch() {
  health_->beat("reading data");
  const engine::Batch& batch = loader_->next();
  dumps_->write_samples(batch.step);
  health_->beat("training step");
  return batch;
}

void Trainer::validate() {
  const Validation::Loss loss = validation_->run(
      *engine_, mesh_, [this] { watchdog_->beat("validation", progress_.step); });
  progress_.validation_seconds = loss.seconds;
  recorder_->record_validation(loss);
}

void Trainer::write_samples() {
  recorder_->record_samples(samples_->write(world_, *engine_, progress_.step, [this] {
    watchdog_->beat("samples of text", progress_.step);
  }));
}

}  // namespace trireme::train
