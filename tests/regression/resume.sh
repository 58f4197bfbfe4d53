#!/usr/bin/env bash
# Stop and resume: a run that is started again equals the undisturbed one, to the bit.
# SPDX-License-Identifier: Apache-2.0
# It was killed before a step, or stopped by a signal; losses and checkpoint are compared.
# Other steps, number types and a time limit: resume_recipes.sh.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
short="run.steps=6 precision.compute=fp32 checkpoint.every=1 checkpoint.keep=3
       parallel.tensor=2"

run 4 train $deck run.directory="$work/whole" $short
check "undisturbed run" test "$status" = 0
run 4 train $deck run.directory="$work/again" $short
check "the same deck twice" identical again whole
run 4 train "$work/whole/deck.toml" run.directory="$work/resolved"
check "the deck in force says all of it" identical resolved whole
check "keep-last-3" test "$(ls -d "$work"/whole/checkpoints/step-* | wc -l)" = 3

run 4 train $deck run.directory="$work/killed" $short debug.fault=kill@4@3
check "killed before step 4: not a success" test "$status" != 0
run 4 train $deck run.directory="$work/killed" $short
check "killed before step 4: resumed" identical killed whole

# A signal: checkpoint, status 75, and the same command again goes on.
"$MPIRUN" -n 4 "$TRIREME" train $deck run.directory="$work/signal" $short \
  run.steps=2000 optimizer.schedule.name=constant checkpoint.every=0 >"$work/out" 2>&1 &
pid=$!
for _ in $(seq 100); do
  [ -s "$work/signal/metrics.jsonl" ] && break
  sleep 0.1
done
kill -USR1 $pid
wait $pid
status=$?
check "a signal ends the run with status 75" test "$status" = 75
check "and leaves a checkpoint" test -e "$work/signal/checkpoints/latest"

# Data that have grown since are told of.
cp LICENSE "$work/text"
grown() { run 1 train $deck run.directory="$work/grown" $short parallel.tensor=1 "data.paths=[\"$work/text\"]" "$@"; }
grown
grown run.steps=7
check "the same data: no word of them" test "$status" = 0 -a -z "$(grep 'samples of data' "$work/out")"
cat LICENSE >>"$work/text"
grown run.steps=8
check "data that have changed" grep -q 'warning: resumed with [0-9]* samples of data; the checkpoint had [0-9]*:' "$work/out"

# Another mesh reads what this one wrote, bit for bit; resuming there goes on.
run 2 train $deck run.directory="$work/whole" $short run.steps=8 parallel.tensor=1
check "resumes on another mesh" test "$status" = 0
check "at the right step" grep -q '(step 6,' "$work/out"
check "with the learning rate of another length" \
  grep -q 'warning: resumed with run.steps = 8; the checkpoint had 6: optimizer.schedule decays' "$work/out"
run 2 train $deck run.directory="$work/whole" $short run.steps=8 parallel.tensor=1
check "of the same length, without a word" test "$(grep -c 'warning: resumed with run' "$work/out")" = 0
run 2 train $deck run.directory="$work/whole" $short run.steps=7 parallel.tensor=1
check "fewer steps than are done" test "$status" = 0
check "need no checkpoint" grep -q 'saves *no checkpoint: 8 of 7 steps (run.steps) are done' "$work/out"
finish
