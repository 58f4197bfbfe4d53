// Trainer: starting, resuming, saving, and faults injected for tests.
// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "base/log.hpp"
#include "base/version.hpp"
#include "comm/one_time.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "train/checkpoint_load.hpp"
#include "train/deck_table.hpp"
#include "train/restarts.hpp"
#include "train/trainer.hpp"
#include "train/whole_tensors.hpp"

namespace trireme::train {
namespace {

// Keys whose change alters what is learned from here on; others are free to change.
bool changes_training(std::string_view section) {
  return section == "model" || section == "data" || section == "batch" ||
         section == "precision" || section.starts_with("optimizer");
}

void warn_of_changes(const std::string& before, const std::string& now) {
  const auto table = deck_table();
  std::optional<io::Deck> old_deck;
  try {
    old_deck = io::Deck::parse(before, "checkpoint's deck", {}, table);
  } catch (const Error&) {
    return;  // an older program wrote it, with other keys
  }
  const auto new_deck = io::Deck::parse(now, "deck", {}, table);
  for (const auto& key : table) {
    const std::string name = std::string(key.section) + "." + std::string(key.name);
    if (!changes_training(key.section) && name != "run.seed") continue;
    const auto was = old_deck->value_text(name), is = new_deck.value_text(name);
    if (was != is)
      log::warn("resumed with {} = {}; the checkpoint had {}", name, is, was);
  }
}

}  // namespace

void Trainer::start_or_resume() {
  const std::string checkpoints = config_.run.directory + "/checkpoints";
  const std::string& resume = config_.checkpoint.resume;
  std::string from = resume, newest;
  world_.agree([&] {
    newest = io::latest_checkpoint(checkpoints);
    require(
        resume != "never" || newest.empty(), Status::cannot_create,
        "checkpoint.resume = \"never\", but '{}' holds checkpoints of an earlier run; "
        "use \"auto\" to go on with it, or another run.directory",
        checkpoints);
    if (resume == "auto" || resume == "never") from = newest;
  });
  const double patience = config_.health.timeout_seconds;
  comm::first_rank_then_others(world_, patience,
                               [&] { io::make_directories(config_.run.directory); });
  if (from.empty()) {
    engine_->store().initialize(config_.run.seed);
  } else {
    load(from, newest);
  }
  predict_save();
  remember_steps();
  comm::first_rank_then_others(world_, patience, [&] {
    if (step_ < config_.run.steps) note_start(config_.run.directory, job_, step_);
    io::write_text_atomically(config_.run.directory + "/deck.toml", deck_);
    metrics_.emplace(config_.run.directory + "/metrics.jsonl", step_);
    if (config_.metrics.tensorboard)
      events_.emplace(config_.run.directory + "/tensorboard", step_);
  });
}

void Trainer::predict_save() {
  double bytes = 0;
  for (const io::TensorBox& box : checkpoint_boxes())
    if (box.write) bytes += static_cast<double>(box.data.bytes());
  const double nodes = world_.sum(1.0 / world_.ranks_on_node());
  save_seconds_ = predicted_save_seconds(world_.sum(bytes), nodes);
}

// All that a checkpoint holds of this rank: its shares of weights and moments, and the
// tensors that are not trained by gradients.
std::vector<io::TensorBox> Trainer::checkpoint_boxes() {
  std::vector<io::TensorBox> boxes;
  for (const auto& box : engine_->store().state_boxes()) {
    boxes.push_back(
        {name_of(box), box.slab->whole, box.global_begin, box.data, box.write});
  }
  if (scaler_)
    boxes.push_back(
        {"optimizer/loss_scale", {3}, {0}, scaler_->state(), world_.rank() == 0});
  for (const StateTensor* state : engine_->states()) {
    const bool first = state->slab.owned && mesh_.replicas().rank() == 0;
    boxes.push_back({"model/" + state->slab.tensor, state->slab.whole,
                     state->slab.global_begin, state->value, first});
  }
  return boxes;
}

// newest: the last checkpoint in the run's own directory, or "".
void Trainer::load(const std::string& from, const std::string& newest) {
  const auto boxes = checkpoint_boxes();
  const io::CheckpointInfo info = config_.checkpoint.one_reads
                                      ? load_by_one(world_, mesh_, from, boxes)
                                      : load_by_all(world_, from, boxes);
  world_.agree([&] {
    require(
        config_.checkpoint.load_on_mesh_change || info.mesh == config_.parallel.mesh,
        Status::bad_content,
        "'{}' was written on another mesh, and checkpoint.load_on_mesh_change = false",
        from);
    const std::string own = newest.substr(newest.rfind('/') + 1);
    require(own <= io::step_name(info.step), Status::cannot_create,
            "'{}' is step {}, but '{}' holds later steps of this run, up to {}: give "
            "another run.directory, or remove those",
            from, info.step, config_.run.directory, own);
  });
  engine_->store().refresh_weights();
  engine_->refresh_scales();
  step_ = info.step;
  tokens_ = info.tokens;
  saved_step_ = step_;
  log::info("resume    from {} (step {}, {} tokens)", from, step_, tokens_);
  warn_of_changes(info.deck, deck_);
}

void Trainer::save() {
  if (saved_step_ == step_) return;
  watchdog_->beat_slow("saving a checkpoint", step_);
  const auto begin = std::chrono::steady_clock::now();
  io::CheckpointInfo info;
  info.program_version = build_info().version;
  info.step = step_;
  info.tokens = tokens_;
  info.mesh = config_.parallel.mesh;
  info.deck = deck_;
  const std::string directory = config_.run.directory + "/checkpoints";
  io::write_checkpoint(world_, directory, info, checkpoint_boxes(),
                       config_.checkpoint.keep);
  saved_step_ = step_;
  save_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  log::info("step {}  checkpoint in {} ({})", step_, directory,
            human_seconds(save_seconds_));
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
  std::string step, loss, norm, skipped;  // streams do not read "nan"
  while (lines >> step >> loss >> norm >> skipped)
    guard_.remember(std::stoll(step), std::stod(loss), std::stod(norm), skipped == "1");
}

}  // namespace trireme::train
