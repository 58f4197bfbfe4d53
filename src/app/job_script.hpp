// The job script of one deck: a Slurm job that goes on by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trireme::app {

// Texts may hold any byte but NUL; each reaches the shell as the one word that it is.
struct JobScript {
  std::string name;       // of the job: letters, digits, "-", "_", "."
  std::string deck;       // as an absolute path
  std::string directory;  // that paths in the deck are relative to
  std::string program;    // unless TRIREME names another
  std::int64_t ranks = 1, ranks_per_node = 1, cores = 1;  // cores: of a rank
  bool gpus = false;                                      // a GPU for each rank

  // The script, from `#!` on. Words behind its name go to `trireme train`, behind the
  // deck. Its last part is that of all scripts in jobs/, to the byte.
  std::string text() const;
};

}  // namespace trireme::app
