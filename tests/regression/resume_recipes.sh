#!/usr/bin/env bash
# A run in each number type that is started again equals the undisturbed one, to the bit.
# SPDX-License-Identifier: Apache-2.0
# Also: killed before the second and the last step, and stopped by a time limit.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
short="run.steps=6 precision.compute=fp32 checkpoint.every=1 checkpoint.keep=3
       parallel.tensor=2"

run 4 train $deck run.directory="$work/whole" $short
check "undisturbed run" test "$status" = 0
for step in 2 6; do
  run 4 train $deck run.directory="$work/kill$step" $short debug.fault=kill@$step@3
  check "killed before step $step: not a success" test "$status" != 0
  run 4 train $deck run.directory="$work/kill$step" $short
  check "killed before step $step: resumed" identical kill$step whole
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
fits="$short model.hidden=64 model.feed_forward=64"
for precision in "fp16 precision.loss_scale=1e8 precision.loss_scale_interval=2" \
  "fp8 precision.recipe=te_delayed precision.amax_history=3" "fp8 precision.recipe=te_current"; do
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

# A start from a model has no history, whatever that was trained with: its first step scales
# as with te_current.
for recipe in te_delayed te_current; do
  run 4 train $deck run.directory="$work/from_$recipe" $fits precision.compute=fp8 \
    precision.recipe=$recipe run.steps=1 optimizer.schedule.warmup=0 \
    model.from="$work/whole_fp8_precision.recipe=te_delayed_precision.amax_history=3"
  check "$recipe starts from a model" test "$status" = 0
  field "$work/from_$recipe/metrics.jsonl" loss >"$work/$recipe"
done
check "without a history" cmp "$work/te_delayed" "$work/te_current"

# A time limit stops a run as a signal does.
run 2 train $deck run.directory="$work/limit" $short run.steps=100000 \
  optimizer.schedule.name=constant checkpoint.every=0 run.time_limit=3
check "the time limit ends the run with status 75" test "$status" = 75

finish
