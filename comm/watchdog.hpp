// Watchdog: ends the job when a rank stops making progress.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/heartbeat_board.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

struct WatchdogConfig {
  double seconds = 0;      // without progress; 0: no watch
  double slow_factor = 5;  // times as long in a phase that is known to be slow
  std::string directory;   // where ranks tell each other their statuses; all share it
  std::string device{};    // of this rank, as reports name it; empty: none
};

// A thread of each rank that looks at Trace::progress() and writes the rank's beat into
// the file of its node (HeartbeatBoard), with its status while it does not get on: for
// neither needs MPI, which may be what hangs, and a rank that is stopped has left its
// last one. Where no progress is made, the lowest rank whose watchdog runs reads the
// files of all nodes, once it made none itself for as long as its phase allows; the
// others read that of the first node alone. If another one lives and is within its own
// time, there is no hang yet: its peers wait for it in good faith. Otherwise one rank
// reports who has not entered which collective (describe_hang), every rank writes its
// flight recorder, and all end with Status::hang.
//
// A phase's clock runs while the process runs: one that was stopped, or waited for a
// core, is not held to the time it lost. The thread also ends the job when a collective
// between GPUs fails.
class Watchdog {
 public:
  // Collective over the world unless seconds is 0. Throws Error(cannot_create) when
  // `directory` cannot be made, or it or a file in it is a link.
  Watchdog(World& world, WatchdogConfig config);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Progress: the rank now does `phase`, a string that lives as long as the watchdog,
  // after `step` steps.
  void beat(const char* phase, std::int64_t step = 0) { enter(phase, step, 1); }
  // The same for a phase that may take slow_factor times as long.
  void beat_slow(const char* phase, std::int64_t step = 0) {
    enter(phase, step, config_.slow_factor);
  }
  // Until the next beat this rank raises no alarm, and nobody raises one of it: for work
  // whose length nobody knows.
  void pause() { phase_ = nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  // The last beat that was read of a rank, and when it changed.
  struct Seen {
    std::uint32_t beat = 0;
    float age = 0, silent = 0, allowed = 0;
  };

  void enter(const char* phase, std::int64_t step, double factor);
  void run();
  void look(double elapsed);
  void judge(double elapsed);
  void look_at_devices();
  RankStatus status() const;
  void publish(bool stands_still);
  double life() const;
  void note(const Heartbeat& now);
  bool lower_rank_lives(double elapsed);
  bool one_lives_below() const;
  bool another_rank_progresses() const;
  void raise_alarm();
  void await_recorders() const;
  void join_alarm();
  std::string marker() const { return "hang-" + token_; }

  World& world_;
  WatchdogConfig config_;
  std::string token_;  // of this run: files of others do not count
  double interval_ = 1;
  std::atomic<const char*> phase_{nullptr};  // nullptr: no watch
  std::atomic<std::int64_t> step_{0};
  std::atomic<double> factor_{1};
  // What follows belongs to the thread.
  std::int64_t last_progress_ = -1, beat_ = 0;
  double silent_ = 0;
  std::optional<HeartbeatBoard> board_;
  std::map<int, Seen> seen_;  // by rank
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

// Whether a name in a watchdog's directory is that of a file that watchdogs write.
bool is_flight_file(std::string_view name);

// Writes the flight recorder of this rank, a JSON object for each of its last
// collectives, to `directory`/recorder-00000.jsonl. Any thread; throws nothing, for it is
// called when all else has failed: false when the file could not be written.
bool dump_flight(const std::string& directory, int rank) noexcept;
// The same into the directory of the watchdog in force; false when there is none, or when
// the file system does not answer for some seconds. The same holds of what follows: one
// that hangs says that nobody else has found or reported anything.
bool dump_flight() noexcept;

// How many ranks have written theirs, by one listing.
int count_recorders(const std::string& directory);

// True for one rank of the job, once, where a watchdog is in force: that which creates a
// file in its directory. True for all where none is. Any thread.
bool claim_report() noexcept;

// Whether the watchdog of a rank, this one or another, has found a hang and reports it.
// Any thread.
bool alarm_is_raised() noexcept;

}  // namespace trireme::comm
