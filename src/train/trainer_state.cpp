// Trainer: starting, resuming, saving, and faults injected for tests.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/log.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "kernels/elementwise.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/checkpoint_load.hpp"
#include "train/deck_table.hpp"
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

// Makes the first elements of a weight NaN.
void poison(const TensorView& weight) {
  Stream stream(weight.device());
  kernels::fill(stream, weight.rows(0, 1), std::numeric_limits<double>::quiet_NaN());
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
    if (world_.rank() == 0) io::make_directories(config_.run.directory);
  });
  saver_.emplace(world_, mesh_, *engine_, config_, deck_);
  if (resume == "auto") {
    const std::string newest = newest_whole_checkpoint(world_, checkpoints);
    if (!newest.empty()) load(newest, true);
  } else if (resume != "never") {
    load(resume, false, steps.empty() ? -1 : steps.back());
  }
  if (saved_step_ < 0) engine_->store().initialize(config_.run.seed);
  world_.agree([&] {
    if (world_.rank() != 0) return;
    io::write_text_atomically(config_.run.directory + "/deck.toml", deck_);
    metrics_.emplace(config_.run.directory + "/metrics.jsonl", step_);
  });
}

// verified: the digests have just been compared. newest: the last step in the run's own
// directory, if it must not be later than this one.
void Trainer::load(const std::string& from, bool verified, std::int64_t newest) {
  const auto boxes = checkpoint_boxes(*engine_, mesh_);
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
  step_ = info.step;
  tokens_ = info.tokens;
  saved_step_ = step_;
  saver_->started_from(step_);
  log::info("resume    from {} (step {}, {} tokens)", from, step_, tokens_);
  warn_of_changes(info.deck, deck_);
}

void Trainer::save() {
  if (saved_step_ == step_) return;
  watchdog_->pause();
  report(saver_->save(step_, tokens_));
  saved_step_ = step_;
}

// Of checkpoints that stand: what they took.
void Trainer::report(const std::vector<Saved>& saved) {
  for (const Saved& one : saved) {
    save_seconds_ = one.seconds;
    const double rate = static_cast<double>(one.bytes) / one.seconds;
    log::info("step {}  checkpoint in {} ({}{}{})", one.step,
              config_.run.directory + "/checkpoints", human_seconds(one.seconds),
              one.bytes > 0 ? format(", {}/s", human_bytes(rate)) : std::string(),
              config_.checkpoint.async
                  ? format(", training waited {}", human_seconds(one.blocking_seconds))
                  : std::string());
    if (!metrics_) continue;
    metrics_->write(io::Record()
                        .set("step", one.step)
                        .set("checkpoint_seconds", one.seconds)
                        .set("checkpoint_blocking_seconds", one.blocking_seconds)
                        .set("checkpoint_bytes", one.bytes)
                        .set("checkpoint_bytes_per_second", rate));
  }
}

void Trainer::inject_fault() {
  if (config_.debug.fault.empty()) return;
  std::string kind, step, rank;
  std::istringstream text(config_.debug.fault);
  std::getline(text, kind, '@');
  std::getline(text, step, '@');
  std::getline(text, rank);
  if (std::stoll(step) != step_ + 1 || std::stoi(rank) != world_.rank()) return;
  log::error(format("debug.fault: {} on rank {} before step {}", kind, rank, step));
  if (kind == "throw") fail(Status::internal, "injected fault");
  if (kind == "exit") ::_exit(3);
  if (kind == "kill") ::kill(::getpid(), SIGKILL);
  while (kind == "hang") ::usleep(100000);
  if (kind == "nan") poison(engine_->store().params().back()->value);
}

}  // namespace trireme::train
