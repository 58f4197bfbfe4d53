#!/usr/bin/env bash
# What dies under Slurm: a rank, a node's daemon.
# SPDX-License-Identifier: Apache-2.0
# The job ends or starts again, and nothing but the steps since the last checkpoint is
# lost. The other scripts of jobs/ are tested here, too.
. "$(dirname "$0")/lib.sh"
some="$short checkpoint.every=2 run.steps=8"

run 4 train $deck run.directory="$work/whole" $some
check "undisturbed" test "$status" = 0

# submit NAME SCRIPT OPTIONS...: prints the job; words of the deck go into $words.
submit() {
  local name=$1 script=$2
  shift 2
  sbatch --parsable --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --signal=USR1@10 \
    --output="$work/$name.out" "$@" "jobs/$script" $deck run.directory="$work/$name" $some \
    $words
}

# A rank that is killed takes the others with it, at once; the job starts again by itself and
# goes on from its last checkpoint. Only its first start has the fault.
cat >"$work/program" <<'END'
#!/bin/bash
[ "$TRIREME_ATTEMPT" = 0 ] && set -- "$@" debug.fault=kill@6@3
exec "$TRIREME_PROGRAM" "$@"
END
chmod +x "$work/program"
export TRIREME_PROGRAM
words=
killed=$(TRIREME="$work/program" submit killed train.sbatch)
check "a killed rank: the job ends" soon 90 ended "$killed"
cp "$work/killed.out" "$work/out"
check "a killed rank: done" in_state "$killed" COMPLETED
check "a killed rank: started again, once" test "$(grep -c '^trireme ' "$work/killed.out")" = 2
check "a killed rank: in its allocation" test "$(restarts "$killed")" = 0
check "a killed rank: nothing is lost" identical "$work/killed" "$work/whole"
check "a killed rank: went on from step 4" grep -q '(step 4,' "$work/killed.out"

# A chain whose deck is wrong ends with its first job; each end of a job would start the next.
chain() {  # NAME [WORD ...]: starts three links; their jobs in `links`.
  local name=$1
  shift
  mapfile -t links < <(jobs/chain.sh 3 --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 \
    --output="$work/$name.%j.out" jobs/train.sbatch $deck run.directory="$work/$name" $some "$@")
}
chain wrong model.heads=3
check "a wrong chain: three jobs" test ${#links[@]} = 3
for link in "${links[@]}"; do check "a wrong chain: $link ends" soon 60 ended "$link"; done
cat "$work"/wrong.*.out >"$work/out"
check "a wrong chain: one job ran" test "$(ls "$work"/wrong.*.out | wc -l)" = 1
check "a wrong chain: the others were cancelled" in_state "${links[2]}" CANCELLED
check "a wrong chain: it says so" grep -qx \
  "job ${links[0]}: ends with status 65, and its chain with it: cancelled ${links[1]} ${links[2]}" "$work/out"
# One that stops at its limit goes on in the next.
chain limited run.steps=1000000 run.time_limit=2 checkpoint.every=1000000
for link in "${links[@]}"; do check "a limited chain: $link ends" soon 90 ended "$link"; done
cat "$work"/limited.*.out >"$work/out"
check "a limited chain: all jobs ran" test "$(ls "$work"/limited.*.out | wc -l)" = 3
check "a limited chain: nothing was asked in vain" test "$(grep -c 'it may not be (Requeue=0' "$work/out")" = 3

# A node whose daemon is killed: Slurm finds it down and starts the job on other nodes.
words="run.steps=1000000"
lost=$(submit lost train.sbatch)
check "a lost node: runs" soon 60 has_steps "$work/lost" 3
# Now: of a job that has lost a node Slurm without a database changes nothing any more.
check "a lost node: may not requeue" scontrol update JobId="$lost" Requeue=0
node=$(scontrol show hostnames "$(squeue -h -j "$lost" -o %N)" | tail -n 1)
kill -9 "${slurmd_pid[$node]}"
resumed() { grep -q '^resume  ' "$work/lost.out"; }
check "a lost node: starts again" soon 100 resumed
elsewhere() { ! scontrol show hostnames "$(squeue -h -j "$lost" -o %N)" | grep -qx "$node"; }
check "a lost node: on other nodes" elsewhere
touch "$work/lost/stop"
check "a file named stop ends a job that may not requeue" soon 60 ended "$lost"
check "with status 75" test "$(exit_status "$lost")" = 75
check "its last line says why" grep -q 'after status 75: it may not be (Requeue=0' \
  <(tail -n 1 "$work/lost.out")
check "Slurm was not asked to queue it" test "$(grep -c 'presently disabled' "$work/lost.out")" = 0
finish
