#!/usr/bin/env bash
# Ranks under srun that hang: asleep, stopped, in another collective.
# SPDX-License-Identifier: Apache-2.0
# Each job ends with 82 by itself, names rank and node, and leaves nobody behind; a job
# that starts again on 82 ends with the bits of one that never hung.
. "$(dirname "$0")/lib.sh"
some="$short run.steps=6 checkpoint.every=2"
# Longer than a rank waits for a core or a disk where other tests run beside this one.
patience="health.watchdog_seconds=5"
ulimit -c 0

# slurm PROGRAM ARGS...: a rank on each of four nodes; output in $work/out, status in $status.
slurm() {
  timeout 90 srun -N 4 --ntasks-per-node=1 --mpi=pmix --kill-on-bad-exit=1 "$@" \
    >"$work/out" 2>&1 </dev/null
  status=$?
}
nobody_left() { ! squeue -h | grep -q . && ! pgrep -f "run.directory=$work/hung" >/dev/null; }

# hung NAME RANK FAULT: the fault ends the job, and the rank is named.
hung() {
  local name=$1 rank=$2 fault=$3
  slurm "$TRIREME" train $deck run.directory="$work/hung-$name" $some debug.fault="$fault" \
    $patience
  check "$name" expect 82 "error: .*rank $rank (host .*) has not entered .* #"
  check "$name: nobody is left" soon 30 nobody_left
}
hung asleep 1 hang@3@1
hung stopped 2 stop@3@2
hung first-stopped 0 stop@3@0

# Ranks in different collectives.
faults=$(dirname "$TRIREME")/tests/ranks/comm_faults
export TRIREME_TEST_FOLDER=$work/flight
mkdir -p "$TRIREME_TEST_FOLDER"
slurm "$faults" watch_skip
check "a skipped collective" expect 82 \
  "rank 3 (host .*) has not entered all_reduce #2\|out of step: rank 3"
slurm "$faults" watch_swap
check "swapped collectives" expect 82 "out of step: rank 3 (host .*) in broadcast #2"
slurm "$faults" watch_count
check "another count" expect 82 "the ranks disagree about the size"

# The job script starts a job that hung again; only its first start hangs.
cat >"$work/program" <<'END'
#!/bin/bash
[ "$TRIREME_ATTEMPT" = 0 ] && set -- "$@" debug.fault=stop@5@1
exec "$TRIREME_PROGRAM" "$@"
END
chmod +x "$work/program"
export TRIREME_PROGRAM
run 4 train $deck run.directory="$work/whole" $some
check "undisturbed" test "$status" = 0
job=$(TRIREME="$work/program" sbatch --parsable --nodes=2 --ntasks-per-node=2 \
  --cpus-per-task=1 --output="$work/job.out" jobs/train.sbatch $deck \
  run.directory="$work/job" $some $patience)
check "a hung job ends" soon 120 ended "$job"
cp "$work/job.out" "$work/out"
check "a hung job: done" in_state "$job" COMPLETED
check "a hung job: started again, once" test "$(grep -c '^trireme ' "$work/job.out")" = 2
check "a hung job: in its allocation" test "$(restarts "$job")" = 0
check "a hung job: nothing is lost" identical "$work/job" "$work/whole"
finish
