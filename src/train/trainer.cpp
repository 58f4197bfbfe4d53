// Trainer: start, step loop and end.
// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "base/trace_range.hpp"
#include "comm/hosts.hpp"
#include "comm/one_time.hpp"
#include "data/text_source.hpp"
#include "io/deck_schema.hpp"
#include "io/files.hpp"
#include "io/shared_source.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::train {
namespace {

constexpr std::size_t label_columns = 10;

double held(const MemoryUse& use) { return static_cast<double>(use.bytes); }
double held_at_most(const MemoryUse& use) { return static_cast<double>(use.peak_bytes); }

// A row for each class of memory that this rank was planned to hold, or holds. Ranks that
// were handed no plan show what they hold alone.
void log_memory(int rank, const PlannedRun& planned) {
  const bool has_plan =
      std::ranges::any_of(planned.memory, [](std::int64_t bytes) { return bytes > 0; });
  std::vector<TextRow> rows;
  const auto add = [&](const std::string& name, const std::string& plan,
                       const std::string& now) {
    rows.push_back(has_plan ? TextRow{name, plan, now} : TextRow{name, now});
  };
  add("class", "planned", "held now");
  double sum_planned = 0, sum_held = 0;
  for (int i = 0; i < memory_classes; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    const auto plan = static_cast<double>(planned.memory[static_cast<std::size_t>(i)]);
    const double now = held(memory_use(c));
    sum_planned += plan;
    sum_held += now;
    if (plan + now > 0) add(std::string(name_of(c)), human_bytes(plan), human_bytes(now));
  }
  add("total", human_bytes(sum_planned), human_bytes(sum_held));
  std::string table = text_table(rows, 1, 2);
  table.pop_back();
  log::line(format("memory    of rank {}\n{}", rank, table));
}

// What each class has held at most.
void log_memory_peak(int rank) {
  std::string text;
  double sum = 0;
  for (int i = 0; i < memory_classes; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    const double bytes = held_at_most(memory_use(c));
    sum += bytes;
    if (bytes > 0) text += format(", {} {}", name_of(c), human_bytes(bytes));
  }
  log::line(wrapped(format("peak      {} on rank {}{}{}", human_bytes(sum), rank,
                           text.empty() ? "" : ": ", text.substr(text.empty() ? 0 : 2)),
                    terminal::prose_columns(), label_columns));
}

}  // namespace

Trainer::Trainer(comm::World& world, comm::Mesh& mesh, comm::Watchdog& watchdog,
                 const config::RunConfig& config, const std::string& deck,
                 const CudaDevice& gpu, const PlannedRun& planned)
    : world_(world),
      mesh_(mesh),
      watchdog_(watchdog),
      config_(config),
      deck_(deck),
      planned_(planned),
      job_(world.rank() == 0 ? launch::batch_job() : launch::BatchJob{}) {
  world_.set_timeout(config_.health.timeout_seconds);
  comm::check_collectives(config_.debug.check_collectives);
  open_data();
  watchdog_.beat_slow("starting");
  make_room_for_data();
  engine_.emplace(config_, mesh_, mesh_.device());
  start(gpu);
  progress_.predicted_seconds = planned_.step_seconds;
  if (config_.learns_pairs() && progress_.step >= config_.run.steps) {
    announce();  // nothing is to be done, for which no reference is needed
    return;
  }
  if (config_.learns_pairs() && !start_pairs()) return;
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
          .references = references_ ? &references_->training() : nullptr,
          .route = &*route_});
  announce();
}

void Trainer::open_data() {
  watchdog_.beat_slow("opening data");
  Faults::at_start(config_.debug.fault, world_.rank());
  route_.emplace(mesh_, config_, config_.data);
  source_ = open(config_.data, *route_, "data-index");
  progress_.samples = source_->samples();
  const engine::SampleRoute validation(mesh_, config_, config_.validation);
  validation_.emplace(config_, validation, [&](const io::SourceConfig& data) {
    return open(data, validation, "validation-index");
  });
  world_.agree([&] {
    engine::document_rule(config_.data, *source_,
                          0);  // complains here, on all ranks alike
    samples_.emplace(config_);
  });
}

// What sources keep no plan knew before they were read.
void Trainer::make_room_for_data() {
  const auto most = world_.max(static_cast<double>(source_bytes_));
  if (most == 0) return;
  log::info("sources   {} of tokens and documents in memory, on the rank that keeps most",
            human_bytes(most));
  world_.agree([&] {
    if (world_.rank() == 0 && planned_.make_room_for_data)
      planned_.make_room_for_data(static_cast<std::int64_t>(most));
  });
}

std::unique_ptr<io::SampleSource> Trainer::open(const io::SourceConfig& config,
                                                const engine::SampleRoute& route,
                                                const char* index) {
  // How long texts take to become tokens depends on their length, and no part of it is
  // known from outside.
  const bool any_time = io::reads_whole_files(config);
  if (any_time) watchdog_.pause();
  io::SourceConfig own = config;
  own.threads = kernels::threads();
  auto source = io::open_shared(
      world_, own, [](const io::SourceConfig& one) { return data::open_source(one); },
      {.index = config_.run.directory + "/" + index,
       .reads = route.reads(),
       .on_file_read =
           [this, any_time] {
             if (!any_time) watchdog_.beat_slow("opening data");
           },
       .keeps = [this](std::int64_t bytes) { source_bytes_ += bytes; }});
  source_bytes_ += reference_bytes(*source);
  watchdog_.beat_slow("opening data");
  return source;
}

// Makes the parts of the loop, and starts from a checkpoint or from initial weights.
void Trainer::start(const CudaDevice& gpu) {
  recorder_.emplace(world_, mesh_, config_, *engine_, gpu,
                    measure_peak(world_, mesh_.device(), gpu, config_.precision.compute),
                    progress_);
  checkpoints_.emplace(
      world_, mesh_, config_, deck_, *engine_, watchdog_, job_, progress_,
      [this](const io::Record& record) { recorder_->write("checkpoint", record); });
  health_.emplace(world_, mesh_, config_, *engine_, watchdog_, progress_);
  dumps_.emplace(world_, mesh_, config_, *engine_, *source_);
  profiler_.emplace(world_, config_, mesh_.device());
  faults_.emplace(config_.debug.fault, world_.rank(), *engine_, mesh_,
                  [this](config::FaultKind kind) { checkpoints_->inject(kind); });
  // Faults come first, so that the others see what they have done.
  std::vector<engine::StepObserver*> observers{&*faults_, &*recorder_, &*checkpoints_,
                                               &*dumps_, &*health_};
  const comm::HostTable& hosts = comm::hosts_of(world_);
  engine_->totals().tell_apart(hosts.number_of(world_.rank()), hosts.hosts());
  if (world_.rank() == 0)
    observers.push_back(&slow_hosts_.emplace(hosts, engine_->totals()));
  observers_.emplace(std::move(observers));
  checkpoints_->start_or_resume();
  progress_.first_step = progress_.step;
  health_->remember_steps();
  comm::first_rank_then_others(world_, config_.health.timeout_seconds, [&] {
    io::write_text_atomically(config_.run.directory + "/deck.toml",
                              io::schema_line() + deck_);
    recorder_->open_files(deck_);
  });
}

// What the model at the start makes of all answers, which the pairs are held against.
// False: the run was stopped meanwhile.
bool Trainer::start_pairs() {
  const auto beat = [this, round = std::int64_t{0}]() mutable {
    watchdog_.beat("log-probabilities of the reference", progress_.step);
    faults_->before_reference(++round);
  };
  const auto stops = [this](double seconds) {
    return checkpoints_->stops_before(seconds);
  };
  references_.emplace(config_, deck_, world_, mesh_, *engine_,
                      References::Calls{beat, stops});
  return references_->start(progress_.step, *source_, *validation_);
}

void Trainer::announce() const {
  if (!job_.id.empty()) log::info("job       {}", job_.describe());
  const auto say = [](const std::string& text) {
    if (log::speaks()) log::line(wrapped(text, terminal::prose_columns(), label_columns));
  };
  say("data      " + source_->describe());
  if (validation_->source() != nullptr)
    say("validate  " + validation_->source()->describe());
  log::info("saves     {}", checkpoints_->describe_next());
  recorder_->announce();
  if (log::speaks()) log_memory(world_.rank(), planned_);
}

// What the reference model said so far is in its file.
Status Trainer::stop_before_first_step() {
  checkpoints_->finish();
  recorder_->finish(Status::run_again);
  log::info(
      "stopped before the first step by {}, with reference log-probabilities of {} "
      "in reference.h5; run the same command again",
      checkpoints_->reason(), references_->progress());
  world_.barrier();
  return Status::run_again;
}

Status Trainer::run() {
  if (progress_.step >= config_.run.steps) {
    log::info("nothing to do: {} of {} steps are done", progress_.step,
              config_.run.steps);
    checkpoints_->finish();
    recorder_->finish(Status::done);
    return Status::done;
  }
  if (!loader_) return stop_before_first_step();
  try {
    while (progress_.step < config_.run.steps && !checkpoints_->stops()) step();
    profiler_->finish();
    checkpoints_->finish();
  } catch (const comm::Agreed&) {
    checkpoints_->finish_quietly();
    throw;
  }
  if (log::speaks()) log_memory_peak(world_.rank());
  recorder_->report();
  const bool done = progress_.step == config_.run.steps;
  recorder_->finish(done ? Status::done : Status::run_again);
  if (done) return Status::done;
  log::info("stopped after step {} by {}, with a checkpoint; run the same command again",
            progress_.step, checkpoints_->reason());
  world_
      .barrier();  // srun may kill the others when the first one leaves with this status
  return Status::run_again;
}

void Trainer::step() {
  std::optional<engine::StepResult> result;
  if (config_.passes_over(progress_.step + 1))
    pass_over();
  else
    result = train_step();
  const bool saves = checkpoints_->saves_now();
  make_ready_to_save(saves);
  if (result) recorder_->record(*result);
  checkpoints_->poll();
  // A run that ends here saves at once: whoever stops it may not wait.
  if (!checkpoints_->stops() && validation_->due(progress_.step)) validate();
  if (!checkpoints_->stops() && samples_->due(progress_.step)) write_samples();
  if (!saves && checkpoints_->saves_now()) make_ready_to_save(true);
  checkpoints_->save_if_due();
  profiler_->after_step(progress_.step);
}

engine::StepResult Trainer::train_step() {
  health_->beat("training step");
  faults_->before_step(progress_.step + 1);
  profiler_->before_step(progress_.step + 1);
  recorder_->begin_step();
  const engine::StepResult result = engine_->train_step(read_batch(), *observers_);
  progress_.step = result.step;
  progress_.tokens += result.tokens;
  progress_.loss = result.loss;
  return result;
}

// A step that data.skip_steps names: its samples are read, as those of every step, and
// nothing is learned from them. It counts as done.
void Trainer::pass_over() {
  const std::int64_t before = progress_.step;
  if (before >= said_until_) said_until_ = say_passed_over(before + 1);
  read_batch();
  progress_.step = before + 1;
  recorder_->write(
      "event",
      io::Record().set("step", progress_.step).set("event", std::string("passed over")));
  // The first step that is trained is the one that sets up what later ones find.
  if (before == progress_.first_step) progress_.first_step = progress_.step;
  // Whoever stops the run is heard here, too.
  engine::StepTotals::Outcome wish;
  checkpoints_->computed(wish);
  wish.stop_request = static_cast<int>(world_.max(wish.stop_request));
  checkpoints_->agreed(wish);
  if (config_.optimizer.outer.ends_round(progress_.step))
    engine_->average_copies(*observers_);
}

// Of all steps in a row from `first` on; returns the last.
std::int64_t Trainer::say_passed_over(std::int64_t first) {
  std::int64_t last = first;
  while (last < config_.run.steps && config_.passes_over(last + 1)) ++last;
  const config::BatchStage end = config_.stage_of(last);
  const std::int64_t begin = config_.stage_of(first).sequence_of(first);
  log::info("{} passed over (data.skip_steps): samples {} to {} of the order",
            first == last ? format("step {} is", first)
                          : format("steps {} to {} are", first, last),
            begin, end.sequence_of(last) + end.global - 1);
  return last;
}

void Trainer::make_ready_to_save(bool saves) {
  if (saves) engine_->average_copies(*observers_);
  health_->check_replicas(saves);
}

const engine::Batch& Trainer::read_batch() {
  health_->beat("reading data");
  const engine::Batch& batch = loader_->next();
  dumps_->write_samples(batch.step);
  health_->beat("training step");
  return batch;
}

void Trainer::validate() {
  const TraceRange range("validation");
  const auto beat = [this] { watchdog_.beat("validation", progress_.step); };
  const auto stops = [this] { return checkpoints_->stops_meanwhile(); };
  const auto loss = validation_->run(*engine_, mesh_, beat, stops);
  if (!loss) {
    if (checkpoints_->stops()) say_cut_short("the validation is");
    return;
  }
  progress_.validation_seconds = loss->seconds;
  progress_.validation_loss = loss->mean;
  progress_.validated_step = progress_.step;
  recorder_->record_validation(*loss);
}

void Trainer::write_samples() {
  const TraceRange range("samples of text");
  const auto beat = [this] { watchdog_.beat("samples of text", progress_.step); };
  const auto stops = [this] { return checkpoints_->stops_meanwhile(); };
  const auto samples = samples_->write(world_, *engine_, progress_.step, beat, stops);
  if (checkpoints_->stops()) return say_cut_short("texts are");
  recorder_->record_samples(samples);
}

void Trainer::say_cut_short(const char* what) const {
  log::info("step {}  {} left off, for the run ends here by {}", progress_.step, what,
            checkpoints_->reason());
}

}  // namespace trireme::train
