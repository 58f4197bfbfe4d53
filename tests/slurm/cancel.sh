#!/usr/bin/env bash
# Jobs that are cancelled stay away, and jobs that crash or are preempted go on.
# SPDX-License-Identifier: Apache-2.0
# Those that crash start again while that gets them further; preempted ones go on from
# their checkpoint.
cluster_options="PreemptType=preempt/partition_prio
PreemptMode=REQUEUE"
cluster_partitions="PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE
PartitionName=grace Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF"
. "$(dirname "$0")/lib.sh"
ulimit -c 0
for_ever="$short run.steps=1000000 checkpoint.every=1000000"

# The program of jobs that end: after $INTERRUPTIONS restarts it does three steps more.
cat >"$work/program" <<'END_OF_PROGRAM'
#!/bin/bash
[ "${SLURM_RESTART_COUNT:-0}" -lt "$INTERRUPTIONS" ] ||
  set -- "$@" "run.steps=$(($(grep -c '"loss":' "$RUN/metrics.jsonl") + 3))"
exec "$TRIREME_PROGRAM" "$@"
END_OF_PROGRAM
# One that dies before it is a program, and notes that it was started.
cat >"$work/dies" <<'END_OF_PROGRAM'
#!/bin/bash
[ "$1" != inspect ] || exec "$TRIREME_PROGRAM" "$@"  # the job script reads the deck
[ "$SLURM_PROCID" != 0 ] || echo start >>"$RUN.starts"
kill -SEGV $$
END_OF_PROGRAM
chmod +x "$work/program" "$work/dies"
export TRIREME_PROGRAM

# submit NAME SCRIPT [OPTION OF sbatch ...]: prints the job; words of the deck are in $words.
submit() {
  local name=$1 script=$2
  shift 2
  RUN="$work/$name" sbatch --parsable --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 \
    --signal=USR1@10 --output="$work/$name.out" "$@" "jobs/$script" $deck \
    run.directory="$work/$name" $words
}
stays_away() {  # JOB: it was cancelled, ended, and is not in the queue again
  soon 60 in_state "$1" CANCELLED && sleep 3 && in_state "$1" CANCELLED &&
    test "$(restarts "$1")" = 0 && ! squeue -h -j "$1" | grep -q .
}
saved() { grep -q 'by a signal, with a checkpoint' "$work/$1.out"; }
restarted() { [ "$(restarts "$1")" -ge "$2" ]; }
no_counts() { ! ls "$SOURCE"/.trireme-starts.* 2>/dev/null; }

# done_like_undisturbed NAME: its bits are those of a run that was left alone.
done_like_undisturbed() {
  cp "$work/$1.out" "$work/out"
  run 4 train $deck run.directory="$work/$1-whole" $short checkpoint.every=1000000 \
    run.steps="$(steps "$work/$1")"
  check "$1: as undisturbed" identical "$work/$1" "$work/$1-whole"
}

# 1. scancel
words=$for_ever
for script in train multi-node-cpu; do
  job=$(submit "cancelled-$script" $script.sbatch --hint=multithread)
  check "$script: runs" soon 60 has_steps "$work/cancelled-$script" 3
  scancel "$job"
  check "$script: cancelled, it stays away" stays_away "$job"
  check "$script: with a checkpoint" saved "cancelled-$script"
done
words="$for_ever run.steps=$(($(steps "$work/cancelled-train") + 3))"
job=$(submit cancelled-train train.sbatch)
check "submitted anew, it ends" soon 90 ended "$job"
done_like_undisturbed cancelled-train

# 2. An array: what ends or starts again is the task, also the one that bears the array's id.
run 1 sweep $deck $for_ever parallel.tensor=1 --directory "$work/sweep" --grid run.seed=1,2,3
array=$(sbatch --parsable --ntasks=1 --signal=USR1@10 --output="$work/task.%a.out" \
  "$work/sweep/sweep.sbatch")
for i in 0 1 2; do check "task $i: runs" soon 90 has_steps "$work/sweep/point-000$i" 3; done
scancel --signal=TERM "${array}_2"
task_again() { scontrol show job "${array}_2" | grep -q 'Restarts=1'; }
check "task 2 starts again" soon 60 task_again
check "and no other" test "$(scontrol show job "$array" | grep -c 'Restarts=0')" = 2
scancel "${array}_1"
check "task 1 is cancelled, for good" stays_away "${array}_1"
check "task 0 goes on" in_state "${array}_0" RUNNING
scancel "$array"
check "the array is cancelled" soon 60 ended "${array}_0"

# 3. A crash before the program runs: three starts. One later: none of them counts that got on.
words=$for_ever
job=$(TRIREME="$work/dies" submit dies train.sbatch)
check "crashes at its start: ends" soon 120 ended "$job"
check "crashes at its start: failed" in_state "$job" FAILED
check "crashes at its start: three starts" test "$(wc -l <"$work/dies.starts")" = 3
check "no counts are left" no_counts

# 4. Preemption. The other job takes all nodes.
preempt() {  # NAME PARTITION
  local job
  words=$for_ever
  job=$(TRIREME="$work/program" INTERRUPTIONS=1 submit "$1" train.sbatch --partition="$2")
  check "$1: runs" soon 60 has_steps "$work/$1" 3
  check "$1: another job takes its nodes" timeout 120 srun --partition=high --nodes=4 \
    --exclusive --mpi=none true
  check "$1: it starts again" soon 60 restarted "$job" 1
  check "$1: and ends" soon 120 ended "$job"
  check "$1: completed" in_state "$job" COMPLETED
  check "$1: no step was lost" saved "$1"
  done_like_undisturbed "$1"
}
preempt requeued low
preempt warned grace
finish
