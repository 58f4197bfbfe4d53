// The checkpoints that a training run writes.
// SPDX-License-Identifier: Apache-2.0
#include "train/saver.hpp"

#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/stopwatch.hpp"
#include "base/version.hpp"
#include "io/run_lock.hpp"

namespace trireme::train {
namespace {

// Adds the seconds of its life to a sum.
class Timer {
 public:
  explicit Timer(double& sum) : sum_(sum) {}
  ~Timer() { sum_ += seconds_since(start_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::function<void()> later_by(double seconds, std::function<void()> work) {
  return [seconds, work = std::move(work)] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    work();
  };
}

void never() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

io::CheckpointInfo info_of_run(const comm::World& world, const config::RunConfig& config,
                               const std::string& deck, const std::string& base) {
  io::CheckpointInfo info;
  info.base = base;
  info.program_version = build_info().version;
  info.commit = build_info().git_commit;
  info.host = world.host();
  std::erase_if(info.host, [](char c) { return c <= ' ' || c > '~'; });
  info.mesh = config.parallel.mesh;
  info.deck = deck;
  return info;
}

void add_progress(io::CheckpointInfo& info, const Progress& progress) {
  info.step = progress.step;
  info.tokens = progress.tokens;
  info.samples = progress.samples;
  info.written = io::utc_time();
  info.loss.reset();
  if (std::isfinite(progress.loss)) info.loss = progress.loss;
}

Saver::Saver(comm::World& world, const config::RunConfig& config, const std::string& deck,
             std::function<std::vector<io::TensorBox>()> boxes, const std::string& base)
    : world_(world),
      boxes_(std::move(boxes)),
      info_(info_of_run(world, config, deck, base)) {
  retention_.keep = config.checkpoint.keep;
  retention_.keep_every = config.checkpoint.keep_every;
  writer_.emplace(world_, config.run.directory + "/checkpoints", retention_,
                  config.checkpoint.ranks_per_file);
  if (config.checkpoint.keep_best > 0) writer_->keep_best(config.checkpoint.keep_best);
  if (config.checkpoint.async) snapshot_.emplace(boxes_());
}

void Saver::started_from(std::int64_t step) {
  retention_.started_from = step;
  writer_->set_retention(retention_);
  writer_->add_views(step);
}

void Saver::add(std::vector<Saved>& saved,
                const std::optional<io::WrittenCheckpoint>& done) {
  if (done)
    saved.push_back(
        {done->step, done->bytes, done->seconds, std::exchange(blocking_seconds_, 0)});
}

std::vector<Saved> Saver::save(const Progress& progress) {
  std::vector<Saved> saved = finish();
  std::optional<io::WrittenCheckpoint> done;
  {
    const Timer timer(blocking_seconds_);
    add_progress(info_, progress);
    writer_->set_validation_loss(progress.validated_step == progress.step
                                     ? std::optional(progress.validation_loss)
                                     : std::nullopt);
    if (snapshot_) {
      auto copies = snapshot_->begin(boxes_());
      if (fault_ == config::FaultKind::slow_copy)
        copies.later = later_by(0.3, std::move(copies.later));
      writer_->begin(info_, std::move(copies.boxes), true, std::move(copies.later));
      done = writer_->poll();
    } else {
      const bool hangs = fault_ == config::FaultKind::hang_disk;
      writer_->begin(info_, boxes_(), false, hangs ? never : std::function<void()>());
      done = writer_->wait_for_name();
    }
  }
  add(saved, done);
  return saved;
}

void Saver::before_update() {
  const Timer timer(blocking_seconds_);
  if (snapshot_) snapshot_->wait();
}

std::vector<Saved> Saver::poll() {
  std::vector<Saved> saved;
  std::optional<io::WrittenCheckpoint> done;
  {
    const Timer timer(blocking_seconds_);
    done = writer_->poll();
  }
  add(saved, done);
  return saved;
}

std::vector<Saved> Saver::finish() {
  std::vector<Saved> saved;
  std::optional<io::WrittenCheckpoint> done;
  {
    const Timer timer(blocking_seconds_);
    done = writer_->finish();
  }
  add(saved, done);
  return saved;
}

void Saver::finish_quietly() {
  try {
    writer_->finish();
  } catch (const comm::Agreed& error) {
    log::warn("{}", error.what());
  }
}

}  // namespace trireme::train
