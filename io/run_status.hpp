// status.toml of a run's directory: how it was started, and how it ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "io/run_lock.hpp"

namespace trireme::io {

struct RunStart {
  std::int64_t step = 0;  // steps done before
  std::int64_t ranks = 0;
  ProcessName process;  // of rank 0
  int restart = 0;      // how often the batch system had started the job again
  int attempt = 0;      // how often the job's script had, since then
  std::string name{};   // in its memory copies (PartnerCopies); "": it makes none
};

struct RunStatus {
  bool running = true;
  Status status = Status::done;  // the exit status, once it has ended
  std::string message;           // of the error
  std::string ended;             // UTC
  std::int64_t steps = 0;        // run.steps
  // Oldest first; of a run that starts anew those of its job alone.
  std::vector<RunStart> starts;
  // Of the last start, for people: read_run_status() leaves them empty.
  std::string program, modules;              // version; LOADEDMODULES of rank 0
  std::vector<std::string> software, hosts;  // builds and libraries; in the ranks' order
};

// Throws Error(cannot_create) or Error(io).
void write_run_status(const std::string& directory, const RunStatus& status);
// Nothing if there is no such file. Throws Error(bad_content) for one that is damaged.
std::optional<RunStatus> read_run_status(const std::string& directory);

}  // namespace trireme::io
