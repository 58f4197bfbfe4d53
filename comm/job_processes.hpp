// Which ranks of this job run on this host, as the system's table of processes has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

// A process that the launcher has started as a rank of this job, or a child of it.
struct JobProcess {
  int rank = 0, process = 0;
  std::string name;         // of what it runs
  bool is_program = false;  // the same program as this process
  bool is_stopped = false;  // by a signal or a debugger
};

// The ranks of a job on this host.
struct JobHere {
  std::vector<int> started;         // those that run this program, ascending
  std::vector<JobProcess> missing;  // those that run something else, one for each rank
  std::vector<JobProcess> stopped;  // those of which the program is stopped
  int expected = 0;                 // as many as the launcher says; 0: it says nothing
};

// What /proc/PID/environ and the like hold, of a rank of the job of `own`; none for other
// processes. Entries end with a zero byte.
struct JobNames {
  std::string job;  // empty: of none that can be told from others
  std::optional<int> rank;
};
JobNames job_names(std::string_view environment);

// By processes of all ranks, in any order.
JobHere sort_processes(const std::vector<JobProcess>& processes, int expected);

// Reads the table; what cannot be read is passed over.
JobHere job_here();

// What is wrong here, and what to look at.
std::string describe(const JobHere& here);

}  // namespace trireme::comm
