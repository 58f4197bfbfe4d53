#!/bin/bash
# Training at the terminal, in an allocation of its own; ends with it.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: jobs/interactive.sh [OPTION OF salloc ...] -- DECK [section.key=value ...]
#   jobs/interactive.sh --nodes=1 --ntasks-per-node=4 --cpus-per-task=8 -- my.toml run.steps=20
#   TRIREME=<path>   the program (default: found in PATH)
# For several runs in one allocation: salloc alone, then the srun below as often as needed.
#
# For your site: --account, --partition, --gpus-per-node.
set -euo pipefail
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  options+=("$1")
  shift
done
if [ $# -lt 2 ]; then
  echo "usage: jobs/interactive.sh [OPTION OF salloc ...] -- DECK [section.key=value ...]" >&2
  exit 64
fi
shift

export OMP_PROC_BIND=${OMP_PROC_BIND:-close} OMP_PLACES=${OMP_PLACES:-cores}
# shellcheck disable=SC2016  # the inner shell, in the allocation, knows the values
exec salloc --time=00:30:00 --ntasks-per-node=1 --cpus-per-task=4 "${options[@]}" bash -c '
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
  export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-tree}
  export OMP_NUM_THREADS=$SRUN_CPUS_PER_TASK
  exec srun --mpi="${TRIREME_SRUN_MPI:-pmix}" --kill-on-bad-exit=1 --cpu-bind=cores \
    "${TRIREME:-trireme}" train "$@"' interactive "$@"
