// Trainer: starting, resuming, saving, and faults injected for tests.
// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "base/log.hpp"
#include "base/number.hpp"
#include "comm/one_time.hpp"
#include "config/deck_table.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "engine/whole_tensors.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/checkpoint_load.hpp"
#include "train/feedback_load.hpp"
#include "train/trainer.hpp"

namespace trireme::train {
namespace {

// Keys whose change alters what is learned from here on; others are free to change.
bool changes_training(std::string_view section) {
  return section == "model" || section == "data" || section == "batch" ||
         section == "precision" || section.starts_with("optimizer");
}

void warn_of_changes(const std::string& before, const std::string& now) {
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
}

}  // namespace

void Trainer::start_or_resume() {
  const std::string checkpoints = config_.run.directory + "/checkpoints";
  const std::string& resume = config_.checkpoint.resume;
  std::vector<std::int64_t> steps;
  world_.agree([&] {
    steps = io::steps_in(checkpoints);
    require(
        resume != "never" || steps.empty(), Status::cannot_create,
        "checkpoint.resume = \"never\", but '{}' holds checkpoints of an earlier run; "
        "use \"auto\" to go on with it, or another run.directory",
        checkpoints);
  });
  const double patience = config_.health.timeout_seconds;
  comm::first_rank_then_others(world_, patience,
                               [&] { io::make_directories(config_.run.directory); });
  saver_.emplace(world_, config_, deck_, [this] { return boxes(); });
  if (resume == "auto") {
    const std::string newest = newest_whole_checkpoint(world_, checkpoints);
    if (!newest.empty()) load(newest, true);
  } else if (resume != "never") {
    tidy_checkpoints(world_, checkpoints);
    load(resume, false, steps.empty() ? -1 : steps.back());
  }
  if (saved_step_ < 0) engine_->store().initialize(config_.run.seed);
  predict_save();
  remember_steps();
  comm::first_rank_then_others(world_, patience, [&] {
    io::write_text_atomically(config_.run.directory + "/deck.toml", deck_);
    metrics_.emplace(config_.run.directory + "/metrics.jsonl", step_);
    if (config_.metrics.tensorboard)
      events_.emplace(config_.run.directory + "/tensorboard", step_);
  });
}

void Trainer::predict_save() {
  double bytes = 0;
  for (const io::TensorBox& box : boxes())
    if (box.write) bytes += static_cast<double>(box.data.bytes());
  const double nodes = world_.sum(1.0 / world_.ranks_on_node());
  save_seconds_ = launch::predicted_save_seconds(world_.sum(bytes), nodes);
}

std::vector<io::TensorBox> Trainer::boxes() {
  return engine::checkpoint_boxes(*engine_, mesh_, scaler_ ? &*scaler_ : nullptr);
}

// verified: the digests have just been compared. newest: the last step in the run's own
// directory, if it must not be later than this one.
void Trainer::load(const std::string& from, bool verified, std::int64_t newest) {
  engine_->store().clear_feedback();
  const auto boxes = boxes_to_load(world_, from, this->boxes());
  const io::CheckpointInfo info = config_.checkpoint.one_reads
                                      ? load_by_one(world_, mesh_, from, boxes, verified)
                                      : load_by_all(world_, from, boxes, verified);
  world_.agree([&] {
    require(
        config_.checkpoint.load_on_mesh_change || info.mesh == config_.parallel.mesh,
        Status::bad_content,
        "'{}' was written on another mesh, and checkpoint.load_on_mesh_change = false",
        from);
    require(newest <= info.step, Status::cannot_create,
            "'{}' is step {}, but '{}' holds later steps of this run, up to {}: give "
            "another run.directory, or remove those",
            from, info.step, config_.run.directory, io::step_name(newest));
  });
  engine_->store().refresh_weights();
  engine_->refresh_scales();
  step_ = info.step;
  tokens_ = info.tokens;
  saved_step_ = step_;
  saver_->started_from(step_);
  log::info("resume    from {} (step {}, {} tokens)", from, step_, tokens_);
  warn_of_changes(info.deck, deck_);
}

void Trainer::save() {
  if (saved_step_ == step_) return;
  watchdog_->beat_slow("saving a checkpoint", step_);
  report_saved(saver_->save(step_, tokens_));
  saved_step_ = step_;
}

std::int64_t Trainer::next_checkpoint(std::int64_t step) const {
  const std::int64_t every = config_.checkpoint.every, last = config_.run.steps;
  const std::int64_t next = every > 0 ? (step / every + 1) * every : last + 1;
  if (next < last || (next == last && every > 0)) return next;
  return config_.checkpoint.at_end && step < last ? last : -1;
}

std::string Trainer::describe_next_checkpoint() const {
  const std::int64_t next = next_checkpoint(step_);
  if (next < 0)
    return "no checkpoint (checkpoint.at_end = false) unless one is asked for";
  if (next < config_.run.steps || config_.checkpoint.every > 0)
    return format("the next checkpoint is due after step {}", next);
  return format("one checkpoint, after step {} (checkpoint.every = 0)", next);
}

// Of checkpoints that stand: what they took.
void Trainer::report_saved(const std::vector<Saved>& saved) {
  for (const Saved& one : saved) {
    save_seconds_ = one.seconds;
    const double rate = static_cast<double>(one.bytes) / one.seconds;
    const std::int64_t next = next_checkpoint(step_);
    log::info("step {}  checkpoint in {} ({}{}{}){}", one.step,
              config_.run.directory + "/checkpoints", human_seconds(one.seconds),
              one.bytes > 0 ? format(", {}/s", human_bytes(rate)) : std::string(),
              config_.checkpoint.async
                  ? format(", training waited {}", human_seconds(one.blocking_seconds))
                  : std::string(),
              next > 0 && !stops(stop_request_) ? format(", the next after step {}", next)
                                                : std::string());
    if (!metrics_) continue;
    write_metrics(io::Record()
                      .set("step", one.step)
                      .set("checkpoint_seconds", one.seconds)
                      .set("checkpoint_blocking_seconds", one.blocking_seconds)
                      .set("checkpoint_bytes", one.bytes)
                      .set("checkpoint_bytes_per_second", rate));
  }
}

// What the guard has seen before this start: the metrics have every step.
void Trainer::remember_steps() {
  std::string text;
  world_.agree([&] {
    if (world_.rank() != 0 || step_ == 0) return;
    for (const auto& s :
         io::read_steps(config_.run.directory + "/metrics.jsonl", step_, guard_.memory()))
      text += format("{} {} {} {}\n", s.step, exact(s.loss), exact(s.grad_norm),
                     s.skipped ? 1 : 0);
  });
  std::istringstream lines(world_.broadcast(text));
  std::string step, loss, norm, skipped;  // streams do not read "nan" nor 1e-310
  while (lines >> step >> loss >> norm >> skipped)
    guard_.remember(parse_number<std::int64_t>(step).value(),
                    parse_number<double>(loss).value(),
                    parse_number<double>(norm).value(), skipped == "1");
}

}  // namespace trireme::train
