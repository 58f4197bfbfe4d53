// StopRequests: why a run saves or stops before its last step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launch/batch_job.hpp"

namespace trireme::launch {

// What a rank asks for at the end of a step. The greatest of all ranks' requests is
// fulfilled: end_warning is for the leading rank to judge in the next step, save goes on
// after a checkpoint, all below it end the run after one.
enum class StopRequest {
  none,
  end_warning,
  save,
  stop_file,
  job_end,
  time_limit,
  signal
};

bool saves(StopRequest request);
bool stops(StopRequest request);
// "a signal", for the log.
std::string_view reason(StopRequest request);

// What has to fit between a decision to stop and the end, in seconds.
struct TimeNeeded {
  double step = 0;        // usual time of a step
  double save = 0;        // of a checkpoint, measured or predicted
  double validation = 0;  // if it is due before the next decision
  // The next step's decision comes one step later, and times vary.
  double seconds() const { return 1.5 * save + 2.0 * step + validation; }
};

// Before a checkpoint has been timed: `bytes` of all ranks, from `nodes` nodes, at a rate
// that a busy file system still gives.
double predicted_save_seconds(double bytes, double nodes);

class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;

  // time_limit: run.time_limit, in seconds from now; 0: none. The job's end is kept at a
  // distance of a tenth of the time that is left now, a minute at most: batch systems are
  // early, and other ranks and nodes have to end, too.
  // directory: the run's, whose files `stop` and `save` are looked for.
  // leads: this rank watches clock and files for all.
  // ask: seconds that the batch system leaves to the job now.
  // clock: tests have their own.
  StopRequests(std::string directory, double time_limit, const BatchJob& job, bool leads,
               std::function<std::optional<double>()> ask = time_left_now,
               std::function<Clock::time_point()> clock = Clock::now);

  // At the end of a step. Local: the ranks agree on the greatest, which is `before` for
  // the next step.
  //
  // SIGUSR1 ends the run, unless it is the batch system's warning (sbatch
  // --signal=USR1@N) and the end of the job is known: the program knows better how long a
  // checkpoint takes. The first one within the job's last six minutes is taken for that:
  // the batch system is asked again, for limits change, and the clock decides. Another
  // one ends the run; what other ranks tell of within two requests or ten seconds is the
  // same one.
  StopRequest request(const TimeNeeded& needed, StopRequest before = StopRequest::none);

  // After the checkpoint is complete: removes the file that asked for it.
  void fulfilled(StopRequest request) const;

 private:
  bool asked_by_file(const char* name) const;
  void set_job_end(double seconds_left);
  // own: SIGUSR1 that reached this rank itself.
  bool is_batch_warning(int own);
  bool reached(const std::optional<Clock::time_point>& end, double seconds) const;

  std::string directory_;
  bool leads_;
  std::optional<Clock::time_point> time_limit_, job_end_;
  std::optional<Clock::time_point> warned_;  // by the batch system
  int requests_since_ = 0;                   // since that
  int own_warnings_ = 0;                     // SIGUSR1 of this rank
  std::function<std::optional<double>()> ask_;
  std::function<Clock::time_point()> clock_;
};

}  // namespace trireme::launch
