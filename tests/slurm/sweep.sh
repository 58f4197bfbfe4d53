#!/usr/bin/env bash
# A sweep of twelve points as a job array: a task that fails is resubmitted alone.
# SPDX-License-Identifier: Apache-2.0
# It is found by its status, and no other point runs twice.
. "$(dirname "$0")/lib.sh"

run 1 sweep $deck precision.compute=fp32 run.steps=4 --directory "$work/sweep" \
  --grid optimizer.learning_rate=1e-3,2e-3,3e-3 --grid run.seed=1,2 --grid model.layers=1,2
check "twelve points" test "$status" = 0 -a "$(grep -c '^\[\[point' "$work/sweep/sweep.toml")" = 12

# The program of the tasks: that of point 7 fails once, as it does on a full disk. (One that is
# killed would start again by itself.)
cat >"$work/program" <<'END'
#!/bin/bash
[ "$1" != inspect ] || exec "$TRIREME_PROGRAM" "$@"  # the job script reads the deck
echo "$SLURM_ARRAY_TASK_ID" >>"$STARTS"
if [ "$SLURM_ARRAY_TASK_ID" = 7 ] && mkdir "$STARTS.failed" 2>/dev/null; then exit 74; fi
exec "$TRIREME_PROGRAM" "$@"
END
chmod +x "$work/program"
export TRIREME_PROGRAM STARTS=$work/starts

# array INDICES: submits them and waits for all.
array() {
  local job
  job=$(TRIREME="$work/program" sbatch --parsable --array="$1%4" --nodes=1 \
    --ntasks=1 --cpus-per-task=1 --signal=USR1@10 --output="$work/task.%a.out" \
    "$work/sweep/sweep.sbatch")
  soon 200 none_left "$job"
}
none_left() { ! squeue -h -j "$1" 2>/dev/null | grep -q .; }

check "the array ends" array 0-11
run 1 sweep --status "$work/sweep/sweep.toml"
check "eleven points are done" test "$(grep -cE '^[* ]+done ' "$work/out")" = 11
run 1 sweep --resubmit "$work/sweep/sweep.toml"
left=$(grep -o -- '--array=[^ ]*' "$work/out" | cut -d= -f2)
check "point 7 is left" test "$left" = 7
check "it is submitted again" array "$left"
run 1 sweep --status "$work/sweep/sweep.toml"
check "all are done" test "$(grep -cE '^[* ]+done ' "$work/out")" = 12
check "thirteen tasks in all" test "$(wc -l <"$STARTS")" = 13
check "point 7 twice" test "$(grep -cx 7 "$STARTS")" = 2

# A point in the array is the run that its overrides say.
run 1 train $deck precision.compute=fp32 run.steps=4 optimizer.learning_rate=3e-3 run.seed=2 \
  model.layers=2 run.directory="$work/alone"
field "$work/alone/metrics.jsonl" loss >"$work/a"
field "$work/sweep/point-0011/metrics.jsonl" loss >"$work/b"
check "the last point's losses are those of its deck" cmp "$work/a" "$work/b"

# Texts that a shell, and Slurm in its own lines, would take for more than a name.
here=$work/$'x\ntouch PWNED #'/'a b"$(touch PWNED)%a'
mkdir -p "$here"
for name in "it's 100% #1" 'a\b'; do
  (cd "$here" && "$TRIREME" sweep "$SOURCE/$deck" precision.compute=fp32 run.steps=4 \
    "data.paths=['$SOURCE/LICENSE']" --directory "$work/$name" --grid run.seed=1,2) >"$work/out" 2>&1
  task=$(cd "$work" && sbatch --parsable --ntasks=1 "$work/$name/sweep.sbatch")
  check "$name: the array ends" soon 120 none_left "$task"
  check "$name: with its logs" test -s "$work/$name/slurm-0.out" -a -s "$work/$name/slurm-1.out"
  run 1 sweep --status "$work/$name/sweep.toml"
  check "$name: both points are done" grep -q '^2 points: 2 done' "$work/out"
done
check "nothing else happened" test -z "$(find "$work" "$SOURCE" -name PWNED -print -quit)"
finish
