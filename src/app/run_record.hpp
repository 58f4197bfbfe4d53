// RunRecord: the lock and the status of a run, from its start to its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "io/run_lock.hpp"
#include "io/run_status.hpp"

namespace trireme::app {

// Holds the lock of the run's directory while it lives, and keeps status.toml there. All
// ranks make one; rank 0 does the work.
class RunRecord {
 public:
  // Makes the directory and takes its lock. One that an earlier start of this job still
  // holds, as of a node that is lost, is waited for: four minutes, but no more than half
  // of `limit_seconds`, for which the other ranks wait (0: without end). Collective.
  // Throws Error(cannot_create), on all ranks alike, when another job holds it, or when
  // the lock or status.toml is a link or no regular file.
  RunRecord(comm::World& world, const config::RunSettings& run, double limit_seconds);

  // Whether all else that the run writes is as io::check_run_directory() wants it.
  // Collective.
  void check();
  // Once it is known how many steps were done before. name: Trainer::start_name().
  // Collective.
  void started(std::int64_t step, const std::string& name);
  // With the status that the program will leave with. Collective.
  void ended(Status status);
  // Before an exception leaves: by one rank alone. What cannot be written is said, for
  // the error that is under way matters more.
  void failed(Status status, const std::string& message) noexcept;

 private:
  comm::World& world_;
  std::string directory_;
  std::optional<io::RunLock> lock_;  // on rank 0
  io::RunStatus status_;
};

// Throws what a RunRecord would throw of a directory that cannot be made or written to,
// that holds something else than a run, or whose lock another job holds; leaves nothing.
void require_run_directory(const std::string& directory);

// Checks the directory, does the work and records how it ends.
Status recorded(RunRecord& record, const std::function<Status()>& work);

}  // namespace trireme::app
