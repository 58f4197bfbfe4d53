// JobScript: sizes of a job for Slurm, and how its ranks are launched.
// SPDX-License-Identifier: Apache-2.0
#include "app/job_script.hpp"

#include <algorithm>
#include <filesystem>

#include "app/shell.hpp"
#include "app/sweep_script.hpp"
#include "base/format.hpp"
#include "base/split.hpp"

namespace trireme::app {

std::string JobScript::text() const {
  const std::int64_t of_node = std::min(ranks, ranks_per_node);
  const std::int64_t nodes = divide_up(ranks, of_node);
  const std::string even =
      ranks % of_node == 0 ? format("#SBATCH --ntasks-per-node={}\n", of_node) : "";
  return format(
             R"sh(#!/bin/bash
# A training job that saves before its time limit and continues by itself; by `trireme init`.
# Usage: sbatch {} [section.key=value ...]
#   TRIREME=<path>   the program (default: the one that wrote this)
#   TRIREME_SPARE_NODES=N   of --nodes, N only take the place of nodes that fail (default: the
#                           deck's run.spare_nodes)
# Account, partition and time are your site's: here, or as options of sbatch.
#SBATCH --job-name={}
#SBATCH --nodes={}
#SBATCH --ntasks={}
{}#SBATCH --cpus-per-task={}
{}#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --open-mode=append
#SBATCH --output=%x.%j.out
# module load ...                # the modules that the program was built with

)sh",
             shell_path(std::filesystem::path(deck).stem().string() + ".sbatch"), name,
             nodes, ranks, even, cores,
             gpus ? format("#SBATCH --gpus-per-node={}\n", of_node) : "") +
         format(
             R"sh(cd {} || exit 66  # paths in the deck are relative to here
built={}
trireme=${TRIREME:-$built}
folder=$PWD                     # that the count of starts is kept in
deck={}

export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}  # Slurm 22.05 to 23.02 do not inherit it
export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-tree}  # why: docs/decisions/slurm-fences.md
export OMP_NUM_THREADS=$SRUN_CPUS_PER_TASK
export OMP_PROC_BIND=${OMP_PROC_BIND:-close} OMP_PLACES=${OMP_PLACES:-cores}

send_libs=  # the program's libraries too, except the system's: from Slurm 22.05 on
if [ -n "$TRIREME_BCAST" ] && srun --help 2>/dev/null | grep -q -- --send-libs; then
  send_libs=--send-libs
fi

# --mpi=pmix is for Open MPI; MPICH and its kin want --mpi=pmi2, Cray --mpi=cray_shasta.
launch() {
  exec srun ${nodes:+--nodes="$node_count" --nodelist="$(srun_nodes)" --ntasks="$tasks"} \
    --mpi="${TRIREME_SRUN_MPI:-pmix}" --kill-on-bad-exit=1 --cpu-bind=cores \
    ${TRIREME_BCAST:+--bcast="$TRIREME_BCAST"} $send_libs \
    "$trireme" train "$deck" "$@"
}
stop() { scancel --signal=TERM "$job"; }  # srun itself would kill the ranks on TERM
deck_value() { "$trireme" inspect "$deck" "${settings[@]}" --value "$1"; }
)sh",
             shell_quoted(directory), shell_quoted(program), shell_quoted(deck)) +
         std::string(end_of_job_scripts());
}

}  // namespace trireme::app
