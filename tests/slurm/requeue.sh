#!/usr/bin/env bash
# Jobs that are interrupted start again by themselves, and lose no bit.
# SPDX-License-Identifier: Apache-2.0
# Interrupted by: time limit, job's end, signals, scontrol requeue. At the end losses and
# tensors are those of an undisturbed run.
#
#   TRIREME_SLURM_FULL=1   also jobs with a limit of two minutes, which take ten
. "$(dirname "$0")/lib.sh"

# The program of the jobs: it would train for ever, but after $INTERRUPTIONS restarts it
# does three steps more. Every interruption so finds a running job, on any machine.
cat >"$work/program" <<'END'
#!/bin/bash
restart=${SLURM_RESTART_COUNT:-0}
arguments=("$@")
if [ "$restart" -ge "$INTERRUPTIONS" ]; then
  arguments+=("run.steps=$(($(grep -c '"loss":' "$RUN/metrics.jsonl") + 3))")
elif [ "$LIMIT" = run.time_limit ] && [ "$restart" = 0 ]; then
  arguments+=(run.time_limit=3)
elif [ "$LIMIT" = job_end ] && [ "$restart" = 0 ]; then
  export SLURM_JOB_END_TIME=$(($(date +%s) + 4))
fi
exec "$TRIREME_PROGRAM" "${arguments[@]}"
END
chmod +x "$work/program"
export TRIREME_PROGRAM

# submit RUN INTERRUPTIONS LIMIT [OPTION OF sbatch ...]: prints the job.
submit() {
  local name=$1 interruptions=$2 limit=$3
  shift 3
  TRIREME="$work/program" RUN="$work/$name" INTERRUPTIONS=$interruptions LIMIT=$limit \
    sbatch --parsable --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --signal=USR1@10 \
    --output="$work/$name.out" "$@" jobs/train.sbatch $deck run.directory="$work/$name" $short \
    run.steps=1000000 checkpoint.every=1000000
}

restarted() { [ "$(restarts "$1")" -ge "$2" ]; }
starts() { grep -c '^trireme ' "$work/$1.out" 2>/dev/null; }
running_again() { [ "$(starts "$1")" -ge "$2" ] && grep -q '^step' <(tail -n 3 "$work/$1.out"); }

# done_like_undisturbed NAME JOB: it ended well, and as an undisturbed run ends.
done_like_undisturbed() {
  cp "$work/$1.out" "$work/out" 2>/dev/null
  check "$1: completed" in_state "$2" COMPLETED
  run 4 train $deck run.directory="$work/$1-whole" $short checkpoint.every=1000000 \
    run.steps="$(steps "$work/$1")"
  check "$1: as undisturbed" identical "$work/$1" "$work/$1-whole"
}

limited=$(submit limited 1 run.time_limit)
ending=$(submit ending 1 job_end)
signalled=$(submit signalled 3 none)

# 1. the batch script alone is signalled; 2. all ranks are; 3. the job is requeued
check "signalled: runs" soon 60 has_steps "$work/signalled" 3
scancel --signal=USR1 --batch "$signalled"
check "signalled: requeued after scancel --batch" soon 90 restarted "$signalled" 1
check "signalled: runs again" soon 60 running_again signalled 2
scancel --signal=TERM "$signalled"
check "signalled: requeued after SIGTERM" soon 90 restarted "$signalled" 2
check "signalled: runs a third time" soon 60 running_again signalled 3
scontrol requeue "$signalled"
check "signalled: scontrol requeue" soon 90 restarted "$signalled" 3

for name in limited ending signalled; do
  check "$name: ends" soon 120 ended "${!name}"
done
check "limited: stopped by the limit" grep -q 'by run.time_limit, with a checkpoint' "$work/limited.out"
check "ending: stopped by the job's end" grep -q "by the job's end, with a checkpoint" "$work/ending.out"
check "signalled: no step is lost" test "$(grep -c 'by a signal, with a checkpoint' "$work/signalled.out")" -ge 2
for name in limited ending signalled; do done_like_undisturbed $name "${!name}"; done

if [ "${TRIREME_SLURM_FULL:-0}" = 1 ]; then
  full=$(submit full 2 none --time=2 --signal=USR1@30)
  check "two minutes: ends" soon 480 ended "$full"
  check "two minutes: stopped twice" test "$(grep -c ', with a checkpoint' "$work/full.out")" = 2
  done_like_undisturbed full "$full"
  # The warning comes at once: the program knows better how much time is left.
  early=$(submit early 1 none --time=2 --signal=USR1@120)
  check "an early warning: ends" soon 480 ended "$early"
  first=$(grep -o 'stopped after step [0-9]*' "$work/early.out" | head -n 1)
  check "an early warning: more than one step before the end" test "${first##* }" -gt 1
  done_like_undisturbed early "$early"
fi
finish
