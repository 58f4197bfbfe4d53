// The checkpoints that a training run writes.
// SPDX-License-Identifier: Apache-2.0
#include "train/saver.hpp"

#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "base/version.hpp"
#include "train/whole_tensors.hpp"

namespace trireme::train {
namespace {

// Adds the seconds of its life to a sum.
class Timer {
 public:
  explicit Timer(double& sum) : sum_(sum) {}
  ~Timer() {
    sum_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::vector<io::TensorBox> checkpoint_boxes(Engine& engine, comm::Mesh& mesh) {
  std::vector<io::TensorBox> boxes;
  for (const auto& box : engine.store().state_boxes()) {
    boxes.push_back(
        {name_of(box), box.slab->whole, box.global_begin, box.data, box.write});
  }
  for (const StateTensor* state : engine.states()) {
    const bool first = state->slab.owned && mesh.replicas().rank() == 0;
    boxes.push_back({"model/" + state->slab.tensor, state->slab.whole,
                     state->slab.global_begin, state->value, first});
  }
  return boxes;
}

std::int64_t snapshot_bytes(Engine& engine, comm::Mesh& mesh) {
  return io::CheckpointSnapshot::bytes_for(checkpoint_boxes(engine, mesh));
}

Saver::Saver(comm::World& world, comm::Mesh& mesh, Engine& engine,
             const RunConfig& config, const std::string& deck)
    : world_(world), mesh_(mesh), engine_(engine), settings_(config.checkpoint) {
  world_.agree([&] {
    if (world_.rank() == 0) lock_.emplace(config.run.directory);
  });
  info_.program_version = build_info().version;
  info_.mesh = config.parallel.mesh;
  info_.deck = deck;
  retention_.keep = settings_.keep;
  retention_.keep_every = settings_.keep_every;
  if (lock_) retention_.may_publish = [this] { lock_->check(); };
  writer_.emplace(world_, config.run.directory + "/checkpoints", retention_);
  if (settings_.async) snapshot_.emplace(checkpoint_boxes(engine_, mesh_));
}

void Saver::started_from(std::int64_t step) {
  retention_.started_from = step;
  writer_->set_retention(retention_);
}

void Saver::add(std::vector<Saved>& saved,
                const std::optional<io::WrittenCheckpoint>& done) {
  if (done)
    saved.push_back(
        {done->step, done->bytes, done->seconds, std::exchange(blocking_seconds_, 0)});
}

std::vector<Saved> Saver::save(std::int64_t step, std::int64_t tokens) {
  std::vector<Saved> saved = finish();
  std::optional<io::WrittenCheckpoint> done;
  {
    const Timer timer(blocking_seconds_);
    info_.step = step;
    info_.tokens = tokens;
    auto boxes = checkpoint_boxes(engine_, mesh_);
    if (snapshot_) boxes = snapshot_->take(boxes);
    writer_->begin(info_, std::move(boxes), snapshot_.has_value());
    done = snapshot_ ? writer_->poll() : writer_->finish();
  }
  add(saved, done);
  return saved;
}

std::vector<Saved> Saver::poll() {
  if (lock_) lock_->refresh();
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
