// Checkpoints: starting, resuming, saving, stopping.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoints.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/trace_range.hpp"
#include "comm/one_time.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "convert/folder_config.hpp"
#include "convert/model_folder.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "train/base_check.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/checkpoint_load.hpp"
#include "train/start.hpp"

namespace trireme::train {
namespace {

// Keys whose change alters what is learned from here on; others are free to change.
bool changes_training(std::string_view section) {
  return section == "model" || section == "adapter" || section == "data" ||
         section == "batch" || section == "precision" ||
         section.starts_with("optimizer") || section.starts_with("train");
}

// What becomes of the learning rate where run.steps is another; "": nothing.
std::string effect_on_rate(const optim::ScheduleConfig& schedule) {
  using optim::DecayStyle;
  if (schedule.kind == DecayStyle::wsd)
    return "the final decay of optimizer.schedule moves with it";
  if (schedule.kind == DecayStyle::constant || schedule.decay > 0) return "";
  return "optimizer.schedule decays to the last step, so that the learning rate is "
         "another from here on; an optimizer.schedule.decay of the length that it had "
         "keeps it";
}

void warn_of_changes(const std::string& before, const std::string& now,
                     const optim::ScheduleConfig& schedule) {
  const auto table = config::deck_table();
  std::optional<io::Deck> old_deck;
  try {
    old_deck = io::Deck::parse(before, "checkpoint's deck", {}, table);
  } catch (const Error&) {
    return;  // an older program wrote it, with other keys
  }
  const auto new_deck = io::Deck::parse(now, "deck", {}, table);
  for (const auto& key : table) {
    const std::string name = full_name(key);
    if (!changes_training(key.section) && name != "run.seed") continue;
    const auto was = old_deck->value_text(key), is = new_deck.value_text(key);
    if (was != is)
      log::warn("resumed with {} = {}; the checkpoint had {}", name, is, was);
  }
  const auto was = old_deck->value_text(config::key::run.steps);
  const auto is = new_deck.value_text(config::key::run.steps);
  const std::string effect = effect_on_rate(schedule);
  if (was != is && !effect.empty())
    log::warn("resumed with run.steps = {}; the checkpoint had {}: {}", is, was, effect);
}

}  // namespace

Checkpoints::Checkpoints(comm::World& world, comm::Mesh& mesh,
                         const config::RunConfig& config, const std::string& deck,
                         engine::Engine& engine, comm::Watchdog& watchdog,
                         const launch::BatchJob& job, Progress& progress,
                         std::function<void(const io::Record&)> record)
    : world_(world),
      mesh_(mesh),
      config_(config),
      deck_(deck),
      engine_(engine),
      watchdog_(watchdog),
      progress_(progress),
      record_(std::move(record)),
      stop_requests_(config.run.directory, config.run.time_limit, job,
                     world.rank() == 0) {}

void Checkpoints::start_or_resume() {
  comm::first_rank_then_others(world_, config_.health.timeout_seconds,
                               [&] { io::make_directories(config_.run.directory); });
  if (config_.checkpoint.partner > 0) partner_.emplace(world_, mesh_, config_);
  ChosenCheckpoint from = choose();
  keep_files(from.reader.get());
  base_ = identify_base(world_, config_, from.reader.get());
  saver_.emplace(
      world_, config_, deck_, [this] { return boxes(); }, base_);
  if (from.reader) load(from);
  if (partner_) partner_->start(from.of_copies ? progress_.step : -1, boxes());
  from.reader.reset();
  if (!started_) {
    engine_.store().initialize(config_.run.seed);
    if (!config_.start_from.empty()) load_start();
  }
  load_base();
  predict_save();
}

// What no checkpoint holds of a run with adapter.quantize, whether it starts or resumes.
void Checkpoints::load_base() {
  world_.agree([&] { engine_.load_base(); });
  if (config_.adapter.quantize == model::BaseCodes::none) return;
  const auto& base = engine_.base();  // a stage without blocks has none
  const auto sum = [&](std::size_t bytes) {
    return human_bytes(world_.sum(static_cast<double>(bytes)));
  };
  const std::string codes = sum(base ? base->code_bytes() : 0);
  const std::string numbers = sum(base ? base->number_bytes() : 0);
  log::info("base      the codes of {} ({}) are read: {} in place of {}",
            config_.start_from, name_of(config_.adapter.quantize), codes, numbers);
}

ChosenCheckpoint Checkpoints::choose() {
  FindElsewhere find;
  if (partner_)
    find = [&](std::int64_t after, std::int64_t last) {
      return partner_->find(after, last, engine::checkpoint_boxes(engine_, mesh_));
    };
  return chosen_checkpoint(world_, config_, Repair::yes, find);
}

std::vector<io::TensorBox> Checkpoints::boxes() {
  std::vector<io::TensorBox> all = engine::checkpoint_boxes(engine_, mesh_);
  for (auto& box : convert::kept_boxes(kept_)) all.push_back(std::move(box));
  return all;
}

// Rank 0 holds the files of the folder that the model once came from, and writes them
// into every checkpoint.
void Checkpoints::keep_files(const io::CheckpointReader* from) {
  const std::string& start = config_.start_from;
  world_.agree([&] {
    if (world_.rank() != 0 || (from == nullptr && start.empty())) return;
    if (from != nullptr) {
      kept_ = convert::kept_files(*from);
    } else if (convert::is_model_folder(start)) {
      kept_ = convert::kept_files(start);
      convert::leave_out_odd_names(start, kept_);
    } else {
      kept_ = convert::kept_files(io::CheckpointReader(start, io::no_digests));
    }
  });
}

// Weights alone, from another model; each rank reads its own parts.
void Checkpoints::load_start() {
  const std::string& from = config_.start_from;
  const std::vector<io::TensorBox> boxes = engine::checkpoint_boxes(engine_, mesh_);
  const StartWeights start(world_, config_, boxes);
  world_.agree([&] {
    for (const io::TensorBox& box : boxes) start.read(box);
  });
  engine_.store().refresh_weights();
  engine_.refresh_scales();
  log::info("start     from {} (weights; optimizer, data and steps begin anew)", from);
  std::string rates;
  world_.agree([&] {
    if (convert::is_model_folder(from))
      rates = convert::dropout_rates(convert::read_folder_config(from));
  });
  if (!rates.empty())
    log::info(
        "dropout   its config.json has {}; this run has model.dropout.residual = {}, "
        "model.dropout.embedding = {} and model.dropout.attention = {}",
        rates, config_.model.residual.dropout, config_.model.residual.embedding_dropout,
        config_.model.attention.dropout);
}

void Checkpoints::load(const ChosenCheckpoint& chosen) {
  const std::string& from = chosen.path;
  const io::CheckpointReader& reader = *chosen.reader;
  world_.agree([&] { check_no_numbers(reader, engine_.base()); });
  engine_.store().clear_feedback();
  const auto boxes = boxes_of_checkpoint(world_, config_, reader,
                                         engine::checkpoint_boxes(engine_, mesh_));
  if (config_.checkpoint.one_reads && !chosen.of_copies)
    load_by_one(world_, mesh_, from, boxes, true);
  else
    load_boxes(world_, reader, boxes, replica_groups(mesh_));
  const io::CheckpointInfo& info = reader.info();
  engine_.store().refresh_weights();
  engine_.refresh_scales();
  progress_.step = info.step;
  progress_.tokens = info.tokens;
  progress_.own_steps = chosen.of_other ? 0 : info.step;
  started_ = true;
  if (chosen.of_copies) {
    step_of_copies_ = info.step;
  } else {
    saved_step_ = info.step;
    saver_->started_from(info.step);
  }
  log::info("resume    from {} (step {}, {} tokens)", from, info.step, info.tokens);
  warn_of_changes(info.deck, deck_, config_.optimizer.schedule);
  if (info.samples > 0 && info.samples != progress_.samples)
    log::warn(
        "resumed with {} samples of data; the checkpoint had {}: files of data.paths "
        "have changed, or how they are cut into samples, so that the order of samples is "
        "another one",
        progress_.samples, info.samples);
}

void Checkpoints::predict_save() {
  double bytes = 0;
  for (const io::TensorBox& box : boxes())
    if (box.write) bytes += static_cast<double>(box.data.bytes());
  const double nodes = world_.sum(1.0 / world_.ranks_on_node());
  progress_.save_seconds = launch::predicted_save_seconds(world_.sum(bytes), nodes);
}

bool Checkpoints::saves_now() const {
  return launch::saves(request_) || next_after(progress_.step - 1) == progress_.step ||
         (partner_ && partner_->due(progress_.step));
}

void Checkpoints::save_if_due() {
  copy_if_due();
  if (launch::saves(request_) || next_after(progress_.step - 1) == progress_.step) save();
  if (!stops()) stop_requests_.fulfilled(request_);
}

void Checkpoints::save() {
  if (saved_step_ == progress_.step) return;
  const TraceRange range("checkpoint");
  watchdog_.beat_slow("saving a checkpoint", progress_.step);
  report(saver_->save(progress_));
  saved_step_ = progress_.step;
}

// Not of a step at which the run ends.
void Checkpoints::copy_if_due() {
  if (!partner_ || !partner_->due(progress_.step) || stops() ||
      progress_.step == config_.run.steps)
    return;
  watchdog_.beat_slow("copying to a partner", progress_.step);
  io::CheckpointInfo info = info_of_run(world_, config_, deck_, base_);
  add_progress(info, progress_);
  partner_->begin(std::move(info), boxes());
}

void Checkpoints::poll() {
  report(saver_->poll());
  if (partner_) partner_->poll();
}

// Messages between partners begin and end here; MPI moves them on meanwhile.
void Checkpoints::enter(engine::StepPhase, std::int64_t) {
  if (partner_) partner_->poll();
}

void Checkpoints::before_update() {
  saver_->before_update();
  if (partner_) partner_->before_update();
}

void Checkpoints::finish_quietly() {
  saver_->finish_quietly();
  if (partner_) partner_->finish();
}

// A run that ends where its copies were taken has them nowhere else.
void Checkpoints::finish() {
  if (only_in_copies()) save();
  const TraceRange range("checkpoint");
  watchdog_.beat_slow("saving a checkpoint", progress_.step);
  report(saver_->finish());
  if (partner_) partner_->remove();
  if (stops()) stop_requests_.fulfilled(request_);
  // Who stops a run may soon kill it; the one that goes on makes the views.
  constexpr double at_a_stop = 2, at_the_end = std::numeric_limits<double>::infinity();
  watchdog_.beat_slow("making views of whole tensors", progress_.step);
  saver_->finish_views(stops() ? at_a_stop : at_the_end);
}

// What any rank asks for: the ranks agree on the greatest.
void Checkpoints::computed(engine::StepTotals::Outcome& mine) {
  mine.stop_request = static_cast<int>(stop_requests_.request(time_needed(), request_));
}

void Checkpoints::agreed(const engine::StepTotals::Outcome& all) {
  request_ = static_cast<launch::StopRequest>(all.stop_request);
}

bool Checkpoints::stops_before(double seconds) {
  const auto mine = stop_requests_.request({.step = seconds}, request_);
  request_ = static_cast<launch::StopRequest>(world_.max(static_cast<int>(mine)));
  if (!stops()) stop_requests_.fulfilled(request_);
  return stops();
}

// A checkpoint that was asked for before is due all the same.
bool Checkpoints::stops_meanwhile() {
  const launch::TimeNeeded needed{progress_.step_seconds, progress_.save_seconds};
  const auto mine = stop_requests_.request(needed, request_);
  const bool save = request_ == launch::StopRequest::save;
  request_ = static_cast<launch::StopRequest>(world_.max(static_cast<int>(mine)));
  if (save) request_ = std::max(request_, launch::StopRequest::save);
  return stops();
}

launch::TimeNeeded Checkpoints::time_needed() const {
  const std::int64_t every = config_.metrics.validate_every;
  // In this step or the next.
  const bool validates = every > 0 && (progress_.step + 2) % every <= 1;
  return {progress_.step_seconds, progress_.save_seconds,
          validates ? progress_.validation_seconds : 0.0};
}

// The step after `step` that ends with a checkpoint by the deck; none: -1.
std::int64_t Checkpoints::next_after(std::int64_t step) const {
  const std::int64_t every = config_.checkpoint.every, last = config_.run.steps;
  const std::int64_t next = every > 0 ? (step / every + 1) * every : last + 1;
  if (next < last || (next == last && every > 0)) return next;
  return config_.checkpoint.at_end && step < last ? last : -1;
}

std::string Checkpoints::describe_next() const {
  const std::int64_t next = next_after(progress_.step);
  if (progress_.step >= config_.run.steps && only_in_copies())
    return format("a checkpoint of step {}, which only copies have", progress_.step);
  if (progress_.step >= config_.run.steps)
    return format("no checkpoint: {} of {} steps (run.steps) are done", progress_.step,
                  config_.run.steps);
  if (next < 0)
    return "no checkpoint (checkpoint.at_end = false) unless one is asked for";
  if (next < config_.run.steps || config_.checkpoint.every > 0)
    return format("the next checkpoint is due after step {}", next);
  return format("one checkpoint, after step {} (checkpoint.every = 0)", next);
}

// Of checkpoints that stand: what they took.
void Checkpoints::report(const std::vector<Saved>& saved) {
  for (const Saved& one : saved) {
    progress_.save_seconds = one.seconds;
    const double rate = static_cast<double>(one.bytes) / one.seconds;
    const std::int64_t next = next_after(progress_.step);
    log::info(
        "step {}  checkpoint in {} ({}{}{}){}", one.step, folder(),
        human_seconds(one.seconds),
        one.bytes > 0 ? format(", {}/s", human_bytes(rate)) : std::string(),
        config_.checkpoint.async
            ? format(", training waited {}", human_seconds(one.blocking_seconds))
            : std::string(),
        next > 0 && !stops() ? format(", the next after step {}", next) : std::string());
    record_(io::Record()
                .set("step", one.step)
                .set("checkpoint_seconds", one.seconds)
                .set("checkpoint_blocking_seconds", one.blocking_seconds)
                .set("checkpoint_bytes", one.bytes)
                .set("checkpoint_bytes_per_second", rate));
  }
}

}  // namespace trireme::train
