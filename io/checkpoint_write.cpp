// Writing a checkpoint: shards by all ranks, then one rank makes it whole and visible.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <thread>
#include <utility>

#include "io/checkpoint_complete.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/checkpoint_writer.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

using Clock = std::chrono::steady_clock;

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

// Is the step there already, every file as it was written? All ranks share the work and
// get the same answer.
bool stands_already(comm::World& world, const std::string& path) {
  const bool found = world.rank() == 0 && exists(path);
  if (world.max(found ? 1 : 0) == 0) return false;
  bool whole = false;
  world.agree([&] { whole = why_incomplete(path, world.rank(), world.size()).empty(); });
  return world.max(whole ? 0 : 1) == 0;
}

}  // namespace

CheckpointWriter::CheckpointWriter(comm::World& world, std::string directory,
                                   const Retention& retention)
    : world_(world), directory_(std::move(directory)), retention_(retention) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::begin(const CheckpointInfo& info, std::vector<TensorBox> boxes,
                             bool background, std::function<void()> first) {
  require(phase_ == Phase::idle, "a checkpoint is begun before the last is finished");
  require(info.step >= 0 && retention_.keep >= 0, "checkpoint of step {}, keep {}",
          info.step, retention_.keep);
  begun_ = Clock::now();
  info_ = info;
  boxes_ = std::move(boxes);
  background_ = background;
  bytes_ = 0;
  temporary_ = temporary_name(info.step);
  world_.agree([&] {
    if (world_.rank() != 0) return;
    make_directories(parent_of(directory_));
    Directory::make_own(directory_);
    remove_leftovers(directory_);
  });
  if (stands_already(world_, directory_ + "/" + step_name(info.step))) {
    boxes_.clear();
    start_naming({});
    return;
  }
  const double needed = world_.sum(static_cast<double>(shard_bytes(boxes_)));
  world_.agree([&] {
    if (world_.rank() != 0) return;
    require_space(directory_, static_cast<std::int64_t>(needed));
    const Directory folder = Directory::own(directory_);
    folder.require_folder(step_name(info.step));
    folder.make(temporary_);
  });
  phase_ = Phase::shards;
  work_.start(
      [this, first = std::move(first)] {
        if (first) first();
        report_ = write_shard(Directory::own(directory_).open(temporary_), world_.rank(),
                              boxes_);
      },
      background_);
}

std::optional<WrittenCheckpoint> CheckpointWriter::poll() {
  while (phase_ != Phase::idle) {
    if (world_.max(work_.busy() ? 1 : 0) > 0) return {};
    try {
      if (advance()) break;
    } catch (const comm::Agreed&) {
      phase_ = Phase::idle;
      if (world_.rank() == 0) remove_temporary();
      world_.barrier();  // no rank reports before that is done
      throw;
    }
    if (phase_ == Phase::idle) return {};
  }
  if (!done_) return {};
  return std::exchange(done_, {});
}

// What failed is said already; what stays is removed before the next save.
void CheckpointWriter::remove_temporary() const {
  try {
    Directory::own(directory_).remove_tree(temporary_);
  } catch (const Error&) {
  }
}

std::optional<WrittenCheckpoint> CheckpointWriter::finish() {
  // Short waits instead of one long collective: a slow disk is no hang.
  while (phase_ != Phase::idle) {
    if (auto done = poll()) return done;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

// From one phase to the next. True at the end.
bool CheckpointWriter::advance() {
  world_.agree([&] { work_.finish(); });
  if (phase_ == Phase::naming) {
    phase_ = Phase::idle;
    boxes_.clear();
    const std::chrono::duration<double> seconds = Clock::now() - begun_;
    done_ = WrittenCheckpoint{info_.step, bytes_, seconds.count()};
    return true;
  }
  std::vector<ShardReport> reports;
  const auto texts = world_.gather_text(report_.text());
  for (const auto& text : texts) reports.push_back(ShardReport::parse(text));
  start_naming(std::move(reports));
  return false;
}

// Rank 0 gives the checkpoint its name; without reports it has it already.
void CheckpointWriter::start_naming(std::vector<ShardReport> reports) {
  phase_ = Phase::naming;
  if (world_.rank() != 0) return;
  work_.start(
      [this, reports = std::move(reports)] {
        const std::string name = step_name(info_.step);
        if (!reports.empty()) {
          bytes_ = complete_checkpoint(Directory::own(directory_).open(temporary_), info_,
                                       reports);
          publish(directory_, temporary_, name);
        }
        point_latest(directory_, name);
        remove_old(directory_, info_.step, retention_);
      },
      background_);
}

void write_checkpoint(comm::World& world, const std::string& directory,
                      const CheckpointInfo& info, const std::vector<TensorBox>& boxes,
                      int keep) {
  Retention retention;
  retention.keep = keep;
  CheckpointWriter writer(world, directory, retention);
  writer.begin(info, boxes, false);
  writer.finish();
}

}  // namespace trireme::io
