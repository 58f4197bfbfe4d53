// The job script of a sweep: a Slurm job array over its points.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::app {

// The last part of every job script: signals, and what starts a job again.
std::string_view end_of_job_scripts();

// What a sweep's script is made of. Texts may hold any byte but NUL; each reaches the
// shell as the one word that it is. Paths are absolute.
struct SweepScript {
  std::int64_t points = 0;
  std::int64_t ranks = 1;  // of each point
  std::string sweep;       // the directory of the manifest; logs go there
  std::string directory;   // that paths in the deck are relative to
  std::string program;     // unless TRIREME names another

  // The script, from `#!` on. Its last part is that of all scripts in jobs/, to the byte.
  std::string text() const;
};

}  // namespace trireme::app
