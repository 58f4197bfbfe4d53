#!/usr/bin/env bash
# Stop and resume: a run that is started again equals the undisturbed one, to the bit.
# SPDX-License-Identifier: Apache-2.0
# It was killed before any step, or stopped by a signal; losses and checkpoint are
# compared.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
short="run.steps=6 precision.compute=fp32 checkpoint.every=1 checkpoint.keep=3
       parallel.tensor=2"

tensors() { "$TRIREME" inspect "$1" | grep -E '^[0-9a-f]{32}' | sort; }

# identical NAME [REFERENCE]: losses and tensors of a run equal those of the undisturbed one.
identical() {
  local reference=${2:-whole}
  field "$work/$1/metrics.jsonl" loss >"$work/a"
  field "$work/$reference/metrics.jsonl" loss >"$work/b"
  cmp "$work/a" "$work/b" || { paste "$work/a" "$work/b"; return 1; }
  tensors "$work/$1" >"$work/a"
  tensors "$work/$reference" >"$work/b"
  [ -s "$work/a" ] && diff "$work/a" "$work/b"
}

run 4 train $deck run.directory="$work/whole" $short
check "undisturbed run" test "$status" = 0
run 4 train $deck run.directory="$work/again" $short
check "the same deck twice" identical again
check "keep-last-3" test "$(ls -d "$work"/whole/checkpoints/step-* | wc -l)" = 3

for step in 2 4 6; do
  run 4 train $deck run.directory="$work/kill$step" $short debug.fault=kill@$step@3
  check "killed before step $step: not a success" test "$status" != 0
  run 4 train $deck run.directory="$work/kill$step" $short
  check "killed before step $step: resumed" identical kill$step
done

# In bf16, whose weights in use are made anew from the master weights.
half="$short precision.compute=bf16"
run 4 train $deck run.directory="$work/half" $half debug.fault=kill@4@3
check "bf16, killed before step 4: not a success" test "$status" != 0
run 4 train $deck run.directory="$work/half" $half
check "bf16, killed before step 4: resumed" test "$status" = 0
run 4 train $deck run.directory="$work/half_whole" $half
check "bf16, undisturbed" test "$status" = 0
check "bf16: the same losses and tensors" identical half half_whole

# The scale of the loss, and the histories of scales, are part of the state.
fits="$short model.hidden=64 model.feed_forward=64 precision.amax_history=3"
for precision in "fp16 precision.loss_scale=1e8 precision.loss_scale_interval=2" \
  "fp8 precision.recipe=te_delayed" "fp8 precision.recipe=te_current"; do
  name=${precision// /_}
  half="$fits precision.compute=$precision"
  run 4 train $deck run.directory="$work/$name" $half debug.fault=kill@4@3
  check "$precision, killed before step 4: not a success" test "$status" != 0
  run 4 train $deck run.directory="$work/$name" $half
  check "$precision, killed before step 4: resumed" test "$status" = 0
  run 4 train $deck run.directory="$work/whole_$name" $half
  check "$precision, undisturbed" test "$status" = 0
  check "$precision: the same losses and tensors" identical "$name" "whole_$name"
done
field "$work/fp16_precision.loss_scale=1e8_precision.loss_scale_interval=2/metrics.jsonl" \
  overflows >"$work/a"
check "fp16 at a scale that is too large: steps were skipped" grep -q '[1-9]' "$work/a"

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

# A time limit does the same.
run 2 train $deck run.directory="$work/limit" $short run.steps=100000 \
  optimizer.schedule.name=constant checkpoint.every=0 run.time_limit=3
check "the time limit ends the run with status 75" test "$status" = 75

# Another mesh reads what this one wrote, bit for bit; resuming there goes on.
run 2 train $deck run.directory="$work/whole" $short run.steps=8 parallel.tensor=1
check "resumes on another mesh" test "$status" = 0
check "at the right step" grep -q '(step 6,' "$work/out"
finish
