#!/usr/bin/env bash
# srun starts the ranks: on 1, 2 and 4 nodes the same bits as with mpirun.
# SPDX-License-Identifier: Apache-2.0
# All have one status, and it is an error where srun starts them one by one.
. "$(dirname "$0")/lib.sh"
some="$short run.steps=4 checkpoint.every=4"

# slurm NODES RANKS-OF-A-NODE ARGS...: output in $work/out, exit status in $status.
slurm() {
  local nodes=$1 ranks=$2
  shift 2
  timeout 120 srun -N "$nodes" --ntasks-per-node="$ranks" --mpi=pmix --kill-on-bad-exit=1 \
    "$TRIREME" "$@" >"$work/out" 2>&1 </dev/null
  status=$?
}

run 4 train $deck run.directory="$work/mpirun" $some
check "mpirun" test "$status" = 0
for nodes in 1 2 4; do
  slurm $nodes $((4 / nodes)) train $deck run.directory="$work/srun$nodes" $some
  check "srun on $nodes nodes" test "$status" = 0
  check "srun on $nodes nodes: the same bits" identical "$work/srun$nodes" "$work/mpirun"
done
check "the table of ranks" grep -qE '^  3 +[^ ]+ +CPU ' "$work/out"

# Every rank leaves with the status of the first: srun reports the highest.
slurm 2 2 train $deck run.directory="$work/bad" $some parallel.tensor=3
check "a wrong mesh" expect 65 parallel.tensor
mkdir -p "$work/stopped"
touch "$work/stopped/stop"
slurm 2 2 train $deck run.directory="$work/stopped" $some
check "a file named stop: status 75" test "$status" = 75
check "it is gone" test ! -e "$work/stopped/stop"
check "after one step" test "$(steps "$work/stopped")" = 1
slurm 2 2 train $deck run.directory="$work/stopped" $some
check "and goes on" identical "$work/stopped" "$work/mpirun"

# The job's end, asked of squeue: an allocation knows its limit.
timeout 120 srun -N 1 -n 2 --time=3 --mpi=pmix --kill-on-bad-exit=1 "$TRIREME" train $deck \
  run.directory="$work/limit" $some >"$work/out" 2>&1
check "the job's end is known" grep -qE '^job .* ends in [23] min' "$work/out"

# The other scripts of jobs/.
timeout 120 bash jobs/interactive.sh --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 -- $deck \
  run.directory="$work/interactive" $some >"$work/out" 2>&1
status=$?
check "at the terminal" test "$status" = 0
check "at the terminal: the same bits" identical "$work/interactive" "$work/mpirun"
timeout 120 sbatch --wait --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --hint=multithread \
  --output="$work/cpu.out" jobs/multi-node-cpu.sbatch $deck run.directory="$work/cpu" $some \
  >"$work/out" 2>&1
status=$?
check "a job for CPUs" test "$status" = 0
check "a job for CPUs: the same bits" identical "$work/cpu" "$work/mpirun"
# The nodes of this cluster share their disk, so that one alone is sent the program.
TRIREME_BCAST=$work/sent timeout 120 sbatch --wait --nodes=1 --ntasks-per-node=2 \
  --cpus-per-task=1 --gpus-per-node=0 \
  --output="$work/gpu.out" jobs/multi-node-gpu.sbatch $deck run.directory="$work/gpu" $some \
  run.device=cpu >"$work/out" 2>&1
status=$?
check "a job for GPUs, without them" test "$status" = 0
check "the program was sent to its node" cmp "$work/sent" "$TRIREME"
for script in jobs/*; do check "$script is a script" bash -n "$script"; done

# Each process believes to be alone where its MPI knows nothing of srun.
timeout 60 srun -N 1 -n 2 --mpi=none env -u SLURM_JOBID -u SLURM_JOB_ID -u SLURM_STEPID \
  -u SLURM_STEP_ID -u SLURM_NODELIST "$TRIREME" train $deck run.directory="$work/alone" \
  $some >"$work/out" 2>&1
status=$?
check "two singletons: refused" test "$status" = 78
check "with the remedy" grep -q -- '--mpi=pmix' "$work/out"
check "nothing was written" test ! -e "$work/alone"
# A rank that looks slow has its node excluded, in a form that srun takes.
slurm 4 1 selftest --speed --quick --device cpu --only products --below 20 --fault products@2 \
  --exclude "$work/slow-nodes"
check "a slow rank: status and node" expect 81 "host.* slow or wrong: n3"
check "a slow rank: its node is excluded" grep -qx n3 "$work/slow-nodes"
nodes=$(timeout 60 srun --exclude="$work/slow-nodes" -N 1 -w n3 printenv SLURMD_NODENAME 2>&1)
check "srun starts nothing there" test "$nodes" != n3
nodes=$(timeout 60 srun --exclude="$work/slow-nodes" -N 1 printenv SLURMD_NODENAME 2>/dev/null)
check "srun takes another" grep -qx 'n[124]' <<<"$nodes"
finish
