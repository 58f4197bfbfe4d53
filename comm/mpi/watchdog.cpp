// Watchdog. Its thread calls no MPI but MPI_Abort, as its last act.
// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <system_error>

#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/stopwatch.hpp"
#include "base/thread_signals.hpp"
#include "comm/abort.hpp"
#include "comm/async_errors.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/state.hpp"
#include "comm/one_time.hpp"
#include "comm/rank_names.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

namespace fs = std::filesystem;

constexpr auto report_name = "report.txt";
constexpr std::string_view recorder_prefix = "recorder-";

// Where dump_flight() writes; set before the thread starts and left as it is.
struct FlightSettings {
  std::string directory, marker;
  int rank = 0;
};
std::mutex flight_mutex, dump_mutex;
FlightSettings flight_in_force;

FlightSettings flight() {
  const std::lock_guard lock(flight_mutex);
  return flight_in_force;
}

void set_flight(const std::string& directory, int rank, const std::string& marker) {
  const std::lock_guard lock(flight_mutex);
  flight_in_force = {directory, marker, rank};
}

// A file system may hang, and a report must not hang with it. 10,000 ranks may take a few
// seconds to write their recorders.
constexpr std::chrono::seconds most_for_a_look(2), most_for_a_recorder(5);

// What `ask` answers, or `otherwise` where it takes too long: the thread that asks is
// then left behind.
bool answer_within(std::chrono::seconds limit, bool otherwise,
                   std::function<bool()> ask) {
  const auto promise = std::make_shared<std::promise<bool>>();
  std::future<bool> answer = promise->get_future();
  try {
    std::thread([promise, ask, otherwise] {
      bool said = otherwise;
      try {
        said = ask();
      } catch (...) {
      }
      promise->set_value(said);
    }).detach();
  } catch (const std::system_error&) {
    return ask();
  }
  const bool is_there = answer.wait_for(limit) == std::future_status::ready;
  return is_there ? answer.get() : otherwise;
}

// Readers see the old text or the new one.
bool put_text(const std::string& directory, const std::string& name,
              const std::string& text) try {
  replace_text(Directory::own(directory), name, text, Durability::unsynced);
  return true;
} catch (const Error&) {
  return false;  // the next look writes again, and the others judge by what they see
}

bool exists(const std::string& directory, const std::string& name) try {
  return Directory::own(directory).is_file(name);
} catch (const Error&) {
  return false;
}

// position-: of older programs.
bool is_for_peers(std::string_view name) {
  return is_beat_file(name) || name.starts_with("position-") || name.starts_with("hang-");
}

bool is_for_people(std::string_view name) {
  return name.starts_with(recorder_prefix) || name == report_name;
}

// False when it is there already.
bool make_file(const std::string& directory, const std::string& name) try {
  const Directory folder = Directory::own(directory);
  const Descriptor file(uninterrupted([&] {
    return ::openat(folder.descriptor(), name.c_str(),
                    O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  }));
  return file.is_open() || errno != EEXIST;
} catch (const Error&) {
  return true;
}

std::string recorder(int rank) {
  return std::string(recorder_prefix) + five_digits(rank) + ".jsonl";
}

// Makes it. What a run that ended in a hang has left for its peers goes away; what it has
// left for people moves to before/.
void prepare(const std::string& directory) {
  std::error_code ignored;
  fs::create_directories(parent_of(directory), ignored);
  const Directory folder = Directory::make_own(directory);
  for (const auto& name : folder.names())
    if (is_flight_file(name)) folder.require_file(name);
  for (const auto& name : folder.names()) {
    if (is_for_peers(name)) folder.remove(name);
    if (is_for_people(name)) folder.rename_into(folder.make("before"), name);
  }
}

}  // namespace

bool is_flight_file(std::string_view name) {
  return is_for_peers(name) || is_for_people(name);
}

bool dump_flight(const std::string& directory, int rank) noexcept try {
  return put_text(directory, recorder(rank), trace().json_lines(rank));
} catch (...) {
  return false;
}

bool dump_flight() noexcept try {
  const FlightSettings now = flight();
  if (now.directory.empty()) return false;
  return answer_within(most_for_a_recorder, false, [now] {
    const std::lock_guard lock(dump_mutex);
    return dump_flight(now.directory, now.rank);
  });
} catch (...) {
  return false;
}

bool alarm_is_raised() noexcept try {
  const FlightSettings now = flight();
  if (now.marker.empty()) return false;
  return answer_within(most_for_a_look, false,
                       [now] { return exists(now.directory, now.marker); });
} catch (...) {
  return false;
}

bool claim_report() noexcept try {
  const FlightSettings now = flight();
  if (now.marker.empty()) return true;
  return answer_within(most_for_a_look, true, [now] {
    return make_file(now.directory, now.marker + "-report");
  });
} catch (...) {
  return true;
}

int count_recorders(const std::string& directory) try {
  const auto names = Directory::own(directory).names();
  return static_cast<int>(std::ranges::count_if(
      names, [](const std::string& name) { return name.starts_with(recorder_prefix); }));
} catch (const Error&) {
  return 0;
}

Watchdog::Watchdog(World& world, WatchdogConfig config)
    : world_(world), config_(std::move(config)) {
  if (config_.seconds <= 0) return;
  interval_ = std::clamp(config_.seconds / 8, 0.05, 5.0);
  first_rank_then_others(world_, 0, [&] { prepare(config_.directory); });
  token_ = world_.broadcast(
      format("{}-{}", Clock::now().time_since_epoch().count(), ::getpid()));
  set_flight(config_.directory, world_.rank(), marker());
  board_.emplace(config_.directory, token_,
                 HeartbeatPlace{world_.state().first_on_node, world_.rank_on_node(),
                                world_.ranks_on_node()},
                 world_.state().shared->of_each());
  publish(false);  // it runs: a rank that stops before its first look is late
  thread_ = std::thread([this] {
    use_signal_stack();
    run();
  });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  set_flight("", 0, "");
  board_->leave();
}

void Watchdog::enter(const char* phase, std::int64_t step, double factor) {
  step_ = step;
  factor_ = factor;
  phase_ = phase;
  note_phase(phase, step);
  trace().mark();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  const auto interval = std::chrono::duration<double>(interval_);
  while (!ending_) {
    const auto before = Clock::now();
    changed_.wait_for(lock, interval, [this] { return ending_; });
    if (ending_) return;
    // While the process was stopped or had no core, nobody can have got on here.
    look(std::min(seconds_since(before), 2 * interval_));
  }
}

// GPUs are asked last: where the driver holds this thread, others have been told of this
// rank. What has ended there counts from the next look on.
void Watchdog::look(double elapsed) {
  judge(elapsed);
  look_at_devices();
}

void Watchdog::judge(double elapsed) {
  const std::int64_t progress = trace().progress();
  silent_ = progress == last_progress_ ? silent_ + elapsed : 0;
  last_progress_ = progress;
  publish(silent_ > 0);
  // There is no alarm while this rank gets on.
  if (silent_ > 0 && exists(config_.directory, marker())) join_alarm();
  // Reading starts early, for what does not change is known by looking twice.
  if (phase_ == nullptr || silent_ < config_.seconds / 2 || lower_rank_lives(elapsed))
    return;
  if (silent_ > config_.seconds * factor_ && !another_rank_progresses()) raise_alarm();
}

RankStatus Watchdog::status() const {
  const WorldState& state = world_.state();
  RankStatus p{.rank = world_.rank(),
               .host = world_.host(),
               .phase = phase_ != nullptr ? phase_.load() : "not watched",
               .step = step_,
               .beat = beat_,
               .silent = silent_,
               .allowed = phase_ != nullptr ? config_.seconds * factor_ : 0,
               .waiting = state.waiting,
               .groups = trace().groups(),
               .calls = trace().calls(),
               .device = config_.device};
  p.groups.push_back({"world", state.ranks, state.sequence});
  if (const char* operation = state.operation)
    p.calls.push_back({"world", state.ranks, state.sequence, operation, "", 0, false});
  return p;
}

void Watchdog::publish(bool stands_still) {
  ++beat_;
  board_->publish(status(), stands_still);
}

// How long a rank may write nothing and count as running.
// Another rank of its node may have to begin to write for it (HeartbeatBoard).
double Watchdog::life() const { return std::max(4 * interval_, 1.0); }

void Watchdog::note(const Heartbeat& now) {
  if (now.rank >= world_.size()) return;
  const auto [at, is_new] = seen_.try_emplace(now.rank);
  Seen& seen = at->second;
  if (is_new || now.beat != seen.beat) seen.age = 0;
  seen.beat = now.beat;
  seen.silent = now.silent;
  seen.allowed = now.allowed;
}

// The lowest rank whose watchdog runs judges for all: there is a hang only when that
// rank, too, does not get on. The others read the file of the first node, and those of
// all nodes only where no lower rank of that one runs.
bool Watchdog::lower_rank_lives(double elapsed) {
  for (auto& [rank, seen] : seen_) seen.age += static_cast<float>(elapsed);
  const auto take = [this](const Heartbeat& now) { note(now); };
  board_->first_node(take);
  if (one_lives_below()) return true;
  board_->other_nodes(take);
  return one_lives_below();
}

bool Watchdog::one_lives_below() const {
  return std::any_of(seen_.begin(), seen_.lower_bound(world_.rank()),
                     [&](const auto& of_rank) { return of_rank.second.age < life(); });
}

// Another rank whose process runs and that is within the time of its phase.
bool Watchdog::another_rank_progresses() const {
  return std::any_of(seen_.begin(), seen_.end(), [&](const auto& rank_and_seen) {
    const auto& [rank, seen] = rank_and_seen;
    return rank != world_.rank() && seen.age < life() && seen.allowed > 0 &&
           seen.silent <= seen.allowed;
  });
}

// One rank reports: the one that makes the file.
void Watchdog::raise_alarm() {
  end_within(report_limit_seconds, Status::hang);
  if (!make_file(config_.directory, marker())) join_alarm();
  if (!may_report_now()) join_alarm();  // the main thread of a rank reports already
  // 1. The others see the file and write where they are.
  dump_flight();
  await_recorders();
  publish(true);
  seen_.clear();
  const auto reports = board_->reports(world_.state().hosts, world_.size());
  // 2. The report: up to so many ranks in a file, the gist on standard error.
  constexpr std::size_t most_in_report = 1000;
  const std::string head = format(
      "rank {} (host {}): no progress for {} s in '{}' "
      "(health.watchdog_seconds = {}): ",
      world_.rank(), world_.host(), fixed(silent_, 1), phase_.load(),
      exact(config_.seconds));
  put_text(config_.directory, report_name,
           head + describe_hang(*reports, most_in_report) + "\n");
  constexpr std::size_t lines = 16;
  log::error(
      format("trireme: error: {}{}\n  the status of every rank: {}/report.txt; the last "
             "collectives of each rank: recorder-*.jsonl beside it",
             head, describe_hang(*reports, lines), config_.directory));
  abort_job(Status::hang);
}

// Until all ranks have written theirs, or as long as those can take that are not stopped.
// One look is one listing, whatever the number of ranks is.
void Watchdog::await_recorders() const {
  const auto end =
      Clock::now() + std::chrono::duration<double>(std::max(2 * interval_, 3.0));
  while (Clock::now() < end && count_recorders(config_.directory) < world_.size())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void Watchdog::join_alarm() {
  end_within(report_limit_seconds, Status::hang);
  publish(true);
  dump_flight();
  // The reporter's abort ends this rank; should it fail, this rank still ends.
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * interval_ + 5));
  abort_job(Status::hang);
}

// The main thread may be blocked: what failed on the GPU is reported from here. Lower
// ranks speak first, and their abort ends the others before they report the same.
void Watchdog::look_at_devices() {
  try {
    async_errors().look();
  } catch (const Error& error) {
    end_within(report_limit_seconds, error.status());
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min(30 * world_.rank(), 2000)));
    if (may_report_now())
      log::error(format("trireme: error: rank {} (host {}): {}", world_.rank(),
                        world_.host(), error.what()));
    else
      ::sleep(other_report_wait_seconds);
    dump_flight();
    abort_job(error.status());
  }
}

}  // namespace trireme::comm
