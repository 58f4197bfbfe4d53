// Who works in a run's directory, for those that only look.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme::io {

// A process and the job that it belongs to.
struct ProcessName {
  std::string host;
  std::int64_t pid = 0;
  std::string job;    // of the batch system, "" if none: "1234", "1234_7" in an array
  std::string since;  // UTC, "2026-01-31T23:59:59Z"; "" if not known
  std::string describe() const;
};

// This process, now.
ProcessName this_process();
// "2026-01-31T23:59:59Z", now.
std::string utc_time();

// Who holds the RunLock of a directory now: the system's lock is held, or the file names
// another host and was refreshed within ten minutes. Nobody if there is no file, or one
// that a dead process left. Throws Error(io) when the file cannot be read.
std::optional<ProcessName> run_holder(const std::string& directory);

// Waits until nobody holds it, at most `seconds`: a job that was aborted may return to
// its launcher before its last process has gone.
void wait_for_leaving_holder(const std::string& directory, double seconds);

}  // namespace trireme::io
