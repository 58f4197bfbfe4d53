// Copies of a run's shards in the memory of nodes, each on two of them.
// SPDX-License-Identifier: Apache-2.0
#include "train/partner_copies.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "base/node_folder.hpp"
#include "base/writable_folder.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/run_lock.hpp"
#include "launch/restarts.hpp"

namespace trireme::train {
namespace {

constexpr std::string_view prefix = "trireme-";

// Of one user, run and job. The path of the run is as rank 0 sees it.
std::string name_of_run(comm::World& world, const std::string& directory) {
  std::string path;
  if (world.rank() == 0) {
    char* const real = ::realpath(directory.c_str(), nullptr);
    path = real != nullptr ? real : directory;
    std::free(real);
  }
  const std::string job = io::this_process().job;
  return format("{}{}-{}-{}", prefix, static_cast<std::uint64_t>(::geteuid()),
                job.empty() ? "0" : job,
                io::digest_of(world.broadcast(path)).substr(0, 16));
}

// Names this start of the run as no other does. Names are in the order of starts, as long
// as the clocks of their rank 0 are: 19 digits of nanoseconds come first.
std::string name_of_start(comm::World& world) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const std::string rank = io::digest_of(format("{} {}", world.host(), ::getpid()));
  return world.broadcast(format("{}-{}", now.count(), rank.substr(0, 8)));
}

io::ShardCopies copies_of_run(comm::World& world, const config::RunConfig& config) {
  const std::string name = name_of_run(world, config.run.directory);
  std::optional<io::ShardCopies> copies;
  world.agree([&] {
    copies.emplace(folder_for_copies(config.checkpoint.partner_directory) + "/" + name);
  });
  return *copies;
}

// That there is such a folder on this rank's host, and that others can be made in it.
void require_folder(const std::string& written, const std::string& host) {
  const std::string folder = folder_for_copies(written);
  require(::access(folder.c_str(), F_OK) == 0, Status::cannot_create,
          "{}: there is no such folder on host {} (checkpoint.partner_directory)", folder,
          host);
  const std::string why = why_no_files_in(folder);
  require(why.empty(), Status::cannot_create,
          "{}: no folder can be made in it on host {}: {} (checkpoint.partner_directory)",
          folder, host, why);
}

}  // namespace

std::string folder_for_copies(const std::string& written) {
  return node_folder(written, "checkpoint.partner_directory", "/dev/shm");
}

void check_copies(comm::World& world, const config::RunConfig& config) {
  const io::ShardCopies copies = copies_of_run(world, config);
  world.agree([&] {
    require_folder(config.checkpoint.partner_directory, world.host());
    copies.require_own();
  });
}

PartnerCopies::PartnerCopies(comm::World& world, comm::Mesh& mesh,
                             const config::RunConfig& config)
    : world_(world),
      mesh_(mesh),
      every_(config.checkpoint.partner),
      run_directory_(config.run.directory),
      attempt_(name_of_start(world)),
      copies_(copies_of_run(world, config)) {
  world_.agree([&] {
    require_folder(config.checkpoint.partner_directory, world_.host());
    copies_.make();
  });
  if (world_.rank() == 0) launch::note_copies_folder(config.checkpoint.partner_directory);
  places_.emplace(world_, copies_.path(), world_.host(), "node-" + attempt_);
  if (!places_->shared().empty())
    log::warn(
        "checkpoint.partner_directory = \"{}\": hosts {} see one folder there: it counts "
        "as one node, for no copy on it is in another node's memory; name a folder of "
        "each node's own, such as \"/dev/shm\"",
        config.checkpoint.partner_directory, places_->shared());
  else if (places_->shift() == 0 && world_.size() > 1)
    log::warn(
        "checkpoint.partner: one node has {} of {} ranks, so that no other can hold "
        "their copies: they outlive the program, but not the node",
        places_->on_node(), world_.size());
}

// Of this user and run, which one job at a time has: nobody goes on from them.
void PartnerCopies::remove_of_earlier_jobs() const {
  if (places_->place() != 0) return;
  const std::string own = last_name_of(copies_.path());
  const std::string folder = parent_of(copies_.path());
  const std::string user = own.substr(0, own.find('-', prefix.size()) + 1);
  const std::string run = own.substr(own.rfind('-'));
  for (const std::string& name : io::names_in(folder))
    if (name != own && name.starts_with(user) && name.ends_with(run))
      io::ShardCopies(folder + "/" + name).remove_all();
}

void PartnerCopies::start(std::int64_t step, const std::vector<io::TensorBox>& boxes) {
  for (const std::int64_t other : copies_.steps())
    if (other != step) copies_.remove(other);
  remove_of_earlier_jobs();
  world_.barrier();  // what a node's other ranks write from here on stays
  whole_ = step;
  snapshot_.emplace(boxes);
  if (places_->shift() == 0) return;
  log::info("copies    in {} of two nodes every {} steps, at rank + {}",
            parent_of(copies_.path()), every_, places_->shift());
}

bool PartnerCopies::due(std::int64_t step) const { return step % every_ == 0; }

void PartnerCopies::begin(io::CheckpointInfo info,
                          const std::vector<io::TensorBox>& boxes) {
  finish();
  step_ = info.step;
  info.attempt = attempt_;
  told_ = false;
  failure_.clear();
  auto snapshot = snapshot_->begin(boxes);
  phase_ = Phase::writing;
  work_.start([this, info = std::move(info), keep = whole_,
               copied = std::move(snapshot.boxes), later = std::move(snapshot.later)] {
    later();
    copies_.remove_before(info.step, keep);
    copies_.write(info, copied, world_.rank(), world_.size());
  });
}

void PartnerCopies::before_update() { snapshot_->wait(); }

// This rank's shard is in place, or has failed: to the partner with it.
void PartnerCopies::exchange() {
  phase_ = Phase::sending;
  const int ranks = world_.size(), shift = places_->shift(), rank = world_.rank();
  if (shift == 0) return;
  comm::Group& everyone = mesh_.everyone();
  const int to = (rank + shift) % ranks;
  received_.emplace(everyone, (rank - shift + ranks) % ranks, copies_);
  std::optional<io::ShardCopies::Content> content;
  try {
    if (failure_.empty()) content = copies_.read(step_, rank);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  if (content)
    sent_.emplace(everyone, to, step_, rank, ranks, std::move(*content));
  else
    sent_.emplace(everyone, to);
}

// Where all of it is done, or `wait`.
void PartnerCopies::advance(bool wait) {
  if (phase_ == Phase::writing) {
    if (!wait && work_.busy()) return;
    try {
      work_.finish();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
    exchange();
  }
  if (phase_ != Phase::sending) return;
  if (received_) {
    // Both have to have begun before either is waited for: all ranks do the same. The
    // answer goes before what is sent, for both may go to the same rank.
    if (!received_->begin(wait) || !sent_->begin(wait)) return;
    const bool received = received_->advance(wait), sent = sent_->advance(wait);
    if (!received || !sent) return;
  }
  try {
    if (received_) received_->finish();
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  sent_.reset();
  received_.reset();
  phase_ = Phase::idle;
}

void PartnerCopies::finish() {
  advance(true);
  agree_on_copies();
}

// Once for each copy. The one before it stays until all ranks have this one.
void PartnerCopies::agree_on_copies() {
  if (told_) return;
  told_ = true;
  const double failed = world_.sum(failure_.empty() ? 0 : 1);
  if (failed == 0) {
    whole_ = step_;
    return;
  }
  copies_.remove(step_);
  std::string first;
  for (const std::string& text : world_.gather_text(failure_))
    if (first.empty()) first = text;
  log::warn("step {}: {} of {} ranks could not make copies (checkpoint.partner): {}; {}",
            step_, static_cast<int>(failed), world_.size(), first,
            whole_ < 0 ? "there are none yet" : format("those of step {} stand", whole_));
}

void PartnerCopies::remove() {
  finish();
  copies_.remove_all();
}

}  // namespace trireme::train
