// What the launcher (mpirun, srun) tells a process of its job, by its environment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

namespace trireme::comm {

// The variables in which launchers give a process its rank, the one that counts first.
inline constexpr std::array rank_variables = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                              "PMI_RANK", "SLURM_PROCID"};

// Whether this is a batch script of Slurm, or was started by one plainly. It has Slurm's
// rank 0 too, but no step: what it calls is no rank.
bool in_batch_script();

// Whether a launcher has started this process.
bool is_launched();

// The number that the launcher gave this process, before MPI starts; 0 where it says
// nothing.
int launched_rank();

// Ranks that the launcher says it started in this job, and the variable that says so; 0:
// it says nothing. mpirun tells its own number, and inherits Slurm's variables from the
// allocation, where fewer ranks are legal. srun tells each rank its step's number of
// tasks.
int launched_ranks(std::string& variable);

}  // namespace trireme::comm
