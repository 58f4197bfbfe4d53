// StartWatch: waits, looks at the processes of this host, speaks, ends.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/start_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.hpp"
#include "base/number.hpp"
#include "base/thread_signals.hpp"
#include "comm/abort.hpp"
#include "comm/job_processes.hpp"
#include "comm/launcher.hpp"
#include "comm/mpi/state.hpp"
#include "comm/rank_names.hpp"
#include "comm/start_limit.hpp"
#include "comm/stop_signals.hpp"

namespace trireme::comm {
namespace {

constexpr auto variable = "TRIREME_START_SECONDS";
constexpr double usual_seconds = 1800;

// Who knows nothing leaves time to other hosts, which may know more; who is not the first
// of its host leaves the launcher time to end it.
constexpr double patience_seconds = 5, most_patience_seconds = 60, others_seconds = 30;

double turn_of(int rank, const JobHere& here) {
  const bool knows = !here.missing.empty() || !here.stopped.empty();
  const bool first = here.started.empty() || rank <= here.started.front();
  return (first ? 0.0 : others_seconds) +
         (knows ? 0.0 : std::min(patience_seconds + 0.03 * rank, most_patience_seconds));
}

}  // namespace

double start_seconds() {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return usual_seconds;
  const auto seconds = parse_number<double>(text);
  require(seconds && *seconds >= 0 && *seconds <= 1e9, Status::command_line,
          "{} = '{}': give seconds, or 0 to wait for ever", variable, text);
  return *seconds;
}

void limit_start(World& world) {
  world.set_timeout(start_seconds());
  world.state().timeout_name = variable;
}

StartWatch::StartWatch() try {
  if (!is_launched()) return;
  seconds_ = start_seconds();
  if (seconds_ <= 0) return;
  thread_ = std::thread([this] {
    use_signal_stack();
    run();
  });
} catch (const Error& error) {  // nobody can be asked yet
  leave_before_mpi(error.status(), launched_rank() == 0, error.what());
}

StartWatch::~StartWatch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Whether the start is over within that time.
bool StartWatch::is_over(std::chrono::duration<double> wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait, [this] { return ending_; });
}

void StartWatch::run() {
  using Seconds = std::chrono::duration<double>;
  if (is_over(Seconds(seconds_))) return;
  const int rank = launched_rank();
  if (is_over(Seconds(turn_of(rank, job_here())))) return;
  // A signal is the launcher's, which ends the job already.
  if (stop_requested()) ::_exit(static_cast<int>(Status::hang));
  log::error(format("trireme: error: rank {} (host {}): waited {} s in {} ({} = {}): {}",
                    rank, own_host(), exact(seconds_), place_.load(), variable,
                    exact(seconds_), describe(job_here())));
  abort_job(Status::hang);
}

}  // namespace trireme::comm
