// Writing a checkpoint: shards by all ranks, then one rank makes it whole and visible.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/path.hpp"
#include "base/split.hpp"
#include "base/use_device.hpp"
#include "comm/abort.hpp"
#include "io/checkpoint_complete.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_removal.hpp"
#include "io/checkpoint_writer.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// How many times as long as another rank a disk may take that training waits for.
constexpr int patience_with_disks = 10;

// How many files so many ranks write.
int files_of(int ranks, int ranks_per_file) {
  return static_cast<int>(divide_up(ranks, ranks_per_file));
}

// Where there is a GPU among the places of boxes, it.
Device device_of(const std::vector<TensorBox>& boxes) {
  const auto at = std::ranges::find_if(
      boxes, [](const TensorBox& box) { return box.data.device().is_cuda(); });
  return at != boxes.end() ? at->data.device() : Device::host();
}

// Which folder a path names now; none: it names nothing.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return std::pair(status.st_dev, status.st_ino);
}

// Is the step there already, every file as it was written? All ranks share the work and
// get the same answer. Throws where it cannot be read: it may be whole, and is not ours
// to replace then.
bool stands_already(comm::World& world, const std::string& path) {
  const bool found = world.rank() == 0 && is_folder(path);
  if (world.max(found ? 1 : 0) == 0) return false;
  std::optional<CheckpointReader> reader;
  try {
    reader.emplace(world, path);
  } catch (const AgreedNewerFormat&) {
    throw;
  } catch (const comm::Agreed& error) {
    if (error.status() != Status::bad_content) throw;
    return false;
  }
  std::string wrong;
  world.agree([&] { wrong = reader->damage(world.rank(), world.size()); });
  return world.max(wrong.empty() ? 0 : 1) == 0;
}

}  // namespace

CheckpointWriter::CheckpointWriter(comm::World& world, std::string directory,
                                   const Retention& retention, int ranks_per_file,
                                   RunIn run_in)
    : world_(world),
      directory_(std::move(directory)),
      retention_(retention),
      run_in_(run_in),
      ranks_per_file_(std::min(ranks_per_file, world.size())),
      views_(directory_) {
  if (world.rank() == 0) run_ = identity_of(parent_of(directory_));
}

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
  indices_.reset();
  temporary_ = temporary_name(info.step);
  world_.agree([&] {
    if (world_.rank() == 0) make_folder();
  });
  clear_leftovers(world_, directory_, temporary_, could_not_remove_);
  if (stands_already(world_, directory_ + "/" + step_name(info.step))) {
    boxes_.clear();
    start_naming();
    return;
  }
  const double needed = world_.sum(static_cast<double>(shard_bytes(boxes_)));
  world_.agree([&] {
    if (world_.rank() != 0) return;
    require_space(directory_, static_cast<std::int64_t>(needed));
    const Directory folder = Directory::own(directory_);
    folder.require_folder(step_name(info.step));
    const Directory made = folder.make(temporary_);
    for (const std::string& name :
         shard_folders(files_of(world_.size(), ranks_per_file_)))
      made.make(name);
  });
  phase_ = Phase::shards;
  turn_ = 0;
  start_turn(std::move(first));
}

// Of a run whose directory was moved none is made in its old place: what it has saved
// would lie in two.
void CheckpointWriter::make_folder() {
  const std::string run = parent_of(directory_);
  if (run_)
    require(identity_of(run) == run_, Status::cannot_create,
            "{}: was moved or removed while the run was in it: move it back and start "
            "again, or start with its new place as run.directory",
            run);
  else
    make_directories(run);
  run_ = identity_of(run);
  Directory::make_own(directory_);
}

// Work of which the next phase needs the end.
void CheckpointWriter::start(std::function<void()> work) {
  started_ = Clock::now();
  const RunIn waiting = world_.size() > 1 ? run_in_ : RunIn::caller;
  work_.start(std::move(work), background_ ? RunIn::own_thread : waiting);
}

// While training waits for the files, waiting is no progress: a disk that hangs is for
// the watchdog to find, which may look sooner than the limit here.
bool CheckpointWriter::any_busy() {
  const bool waits = !background_ && phase_ < Phase::removing;
  if (!waits) return world_.max(work_.busy() ? 1 : 0) > 0;
  const double limit = patience_with_disks * world_.timeout();
  if (limit > 0 && work_.busy() && Clock::now() - started_ > Seconds(limit))
    comm::end_job(std::make_exception_ptr(Error(
        Status::hang,
        format(
            "{}: has not been written in {} s, {} times comm.timeout_seconds: the disk "
            "of rank {} on host {} hangs",
            directory_ + "/" + temporary_, static_cast<std::int64_t>(limit),
            patience_with_disks, world_.rank(), world_.host()))));
  return world_.any_busy(work_.busy());
}

// The ranks whose turn it is write; the others only take the copy of what they will.
// GPUs are waited for here, where other ranks are heard meanwhile.
void CheckpointWriter::start_turn(std::function<void()> first) {
  const int rank = world_.rank(), ranks = world_.size(), file = rank / ranks_per_file_;
  const FileTurn turn{rank % ranks_per_file_,
                      std::min(ranks_per_file_, ranks - file * ranks_per_file_)};
  const Device device = device_of(boxes_);
  Stream(device).synchronize();
  start([this, first = std::move(first), file, turn, ranks, device,
         mine = turn.place == turn_] {
    if (device.is_cuda()) use_device(device);
    if (first) first();
    if (!mine) return;
    report_ = write_shard(Directory::own(directory_).open(temporary_),
                          shard_path(file, files_of(ranks, ranks_per_file_)), boxes_,
                          world_.rank() < ranks_that_name_all, turn);
  });
}

std::optional<WrittenCheckpoint> CheckpointWriter::poll() {
  while (phase_ != Phase::idle && !done_) {
    if (any_busy()) return {};
    try {
      advance();
    } catch (const comm::Agreed&) {
      phase_ = Phase::idle;
      if (world_.rank() == 0) remove_temporary();
      world_.barrier();  // no rank reports before that is done
      throw;
    }
  }
  return std::exchange(done_, {});
}

// What failed is said already; what stays is removed before the next save.
void CheckpointWriter::remove_temporary() const {
  try {
    Directory::own(directory_).remove_tree(temporary_);
  } catch (const Error&) {
  }
}

// Short waits instead of one long collective: a slow disk is no hang.
std::optional<WrittenCheckpoint> CheckpointWriter::wait_for_name() {
  while (phase_ != Phase::idle) {
    if (auto done = poll()) return done;
    if (phase_ == Phase::removing || phase_ == Phase::removing_rest) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

std::optional<WrittenCheckpoint> CheckpointWriter::finish() {
  auto done = wait_for_name();
  while (poll(), phase_ != Phase::idle)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return done;
}

// From one phase to the next.
void CheckpointWriter::advance() {
  world_.agree([&] { work_.finish(); });
  if (phase_ == Phase::removing_rest) {
    phase_ = Phase::idle;
  } else if (phase_ == Phase::removing) {
    start_removing_rest();
  } else if (phase_ == Phase::naming) {
    boxes_.clear();
    const std::chrono::duration<double> seconds = Clock::now() - begun_;
    done_ = WrittenCheckpoint{info_.step, bytes_, seconds.count()};
    add_views(info_.step);
    start_removing();
  } else if (phase_ == Phase::gathering) {
    gather_next();
  } else if (++turn_ < ranks_per_file_) {
    start_turn({});
  } else {
    require_room_for_index();
    start_gathering();
  }
}

void CheckpointWriter::start_gathering() {
  phase_ = Phase::gathering;
  // Shards are in the order of the ranks that wrote them.
  std::map<int, std::string> own_indices;
  std::string index = std::exchange(report_, {}).index;
  if (!index.empty()) own_indices[world_.rank()] = std::move(index);
  indices_.emplace(world_, std::move(own_indices));
  gather_next();
}

// What a round brings is merged while training goes on.
void CheckpointWriter::gather_next() {
  if (indices_->done()) return start_naming();
  indices_->gather_next();
  if (world_.rank() == 0) start([this] { indices_->merge(); });
}

// Before anything is sent.
void CheckpointWriter::require_room_for_index() {
  const double bytes = world_.sum(static_cast<double>(report_.index.size()));
  world_.agree([&] {
    require(bytes <= static_cast<double>(index_limit_bytes), Status::resources,
            "{}: the index of the checkpoint would have {}, and at most {} can be read: "
            "shard over fewer ranks (parallel.sharding_strategy = \"HYBRID_SHARD\"); the "
            "checkpoint before this one stands",
            directory_, human_bytes(bytes),
            human_bytes(static_cast<double>(index_limit_bytes)));
  });
}

// Rank 0 gives the checkpoint its name; without indices of shards it has it already.
void CheckpointWriter::start_naming() {
  phase_ = Phase::naming;
  to_remove_.clear();
  if (world_.rank() != 0) return;
  start([this] {
    const std::string name = step_name(info_.step);
    if (best_) best_->read();
    if (indices_) {
      bytes_ = complete_checkpoint(Directory::own(directory_).open(temporary_), info_,
                                   indices_->take());
      views_.drop_if([&](const std::string& other) { return other == name; });
      if (best_) best_->write(info_.step);
      publish(directory_, temporary_, name);
    }
    point_latest(directory_, name);
    to_remove_ = removal_list(Directory::own(directory_),
                              set_old_aside(directory_, info_.step, retention_, complete_,
                                            best_ ? &*best_ : nullptr));
  });
}

// Every rank learns what leaves, and removes its share.
void CheckpointWriter::start_removing() {
  to_remove_ = world_.broadcast(to_remove_);
  phase_ = to_remove_.empty() ? Phase::idle : Phase::removing;
  if (phase_ == Phase::idle) return;
  work_.start(
      [this] { remove_share(directory_, to_remove_, world_.rank(), world_.size()); },
      run_in_);
}

// A failure is a warning: the next checkpoint tries again.
void CheckpointWriter::start_removing_rest() {
  phase_ = Phase::removing_rest;
  if (world_.rank() != 0) return;
  work_.start(
      [this] {
        const Directory folder = Directory::own(directory_);
        views_.drop_if([&](const std::string& name) { return !folder.has(name); });
        for (const std::string& name : remove_rest(directory_, to_remove_))
          warn_that_it_stays(directory_, name, could_not_remove_);
      },
      run_in_);
}

void CheckpointWriter::add_views(std::int64_t step) {
  if (world_.rank() == 0) views_.add(step_name(step), run_in_);
}

// Short waits here too.
void CheckpointWriter::finish_views(double most_seconds) {
  constexpr double long_seconds = 5;
  const Clock::time_point begun = Clock::now();
  bool said = false;
  while (true) {
    const std::chrono::duration<double> waited = Clock::now() - begun;
    const bool waits = views_.busy() && waited.count() < most_seconds;
    if (world_.max(waits ? 1 : 0) == 0) break;
    if (waits && !said && waited.count() > long_seconds) {
      log::info("the last checkpoint stands; its views of whole tensors are being made");
      said = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (views_.busy())
    for (const std::string& name : views_.drop_all())
      log::info("{}/{}: its views of whole tensors are left to the next start",
                directory_, name);
  world_.agree([&] { views_.finish(); });
}

}  // namespace trireme::io
