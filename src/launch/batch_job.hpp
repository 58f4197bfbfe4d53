// What the batch system says about the job that this process belongs to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::launch {

struct BatchJob {
  std::string id;    // SLURM_JOB_ID; empty: no batch job
  int restarts = 0;  // how often the batch system has started it again
  int attempts = 0;  // how often its script has, since then
  std::optional<double> seconds_left;

  // "17 (restart 2), ends in 3 min 20 s", for the log.
  std::string describe() const;
};

// How often the batch system has started this job again.
int batch_restarts();
// How often its script has started the ranks again since then (TRIREME_ATTEMPT).
int script_attempts();

// Seconds that the job of this process has left, asked of the batch system now: its limit
// may have changed since the start. Nothing where that is not known.
std::optional<double> time_left_now();

// Of this process, from Slurm's environment. Where that lacks the end (Slurm
// before 23.02) squeue is asked, once, for 10 seconds at most; an end that cannot be had
// is left out.
BatchJob batch_job();

// Seconds from squeue's "%L": "59", "2:03", "1:02:03", "2-01:02:03"; nothing for words
// such as UNLIMITED.
std::optional<double> parse_time_left(std::string_view text);

}  // namespace trireme::launch
