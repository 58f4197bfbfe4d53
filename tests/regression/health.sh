#!/usr/bin/env bash
# Health of a run: hangs, replicas that differ, skipped steps, ranks out of step.
# SPDX-License-Identifier: Apache-2.0
# The watchdog finds hangs.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
ulimit -c 0
deck=tests/regression/tiny.toml
base="run.steps=4 precision.compute=fp32"
train() {
  local ranks=$1
  shift
  rm -rf "$work/run"
  run "$ranks" train $deck run.directory="$work/run" $base "$@"
}

# 1. Hangs: who, where, and every rank's flight recorder.
train 3 batch.global=6 debug.fault=stop@3@1 health.watchdog_seconds=1
check "a stopped rank" expect 82 "rank 1 (host .*) has not entered all_reduce #.* on axis"
check "the positions" grep -q "^  rank 2 (host .*): '.*', 2 steps done" "$work/out"
check "the flight recorder" \
  grep -q '"rank": 0, .*"operation": "all_reduce".*"end": null' \
  "$work/run/flight/recorder-00000.jsonl"
check "the report" grep -q "rank 1 (host" "$work/run/flight/report.txt"
train 3 model.layers=3 parallel.pipeline=3 debug.fault=hang@3@1 health.watchdog_seconds=1
check "a rank amid a pipeline" expect 82 "rank 1 (host"
train 2 debug.fault=hang@1@1 health.watchdog_seconds=1 health.slow_factor=2
check "the first step" expect 82 "rank 1 (host"
train 2 debug.fault=hang@start@1 health.watchdog_seconds=1 health.slow_factor=2
check "the start" expect 82 "in 'opening data' .*: rank 1 (host .*) has not entered agree"
train 2 debug.fault=hang@start@1 comm.timeout_seconds=2
check "the start, by the limit of a wait" expect 82 "rank 1 (host"
train 2 checkpoint.every=1 metrics.validate_every=1 'data.validation_paths=["LICENSE"]' \
  health.watchdog_seconds=2
check "no false alarm" test "$status" = 0

# A slow host is named once, and changes nothing but time.
train 2 run.steps=24
field "$work/run/metrics.jsonl" loss >"$work/losses"
train 2 run.steps=24 debug.fault=slow@2@1
field "$work/run/metrics.jsonl" loss >"$work/others"
check "a slow rank: the same losses" cmp "$work/losses" "$work/others"
slow_lines() { grep -c 'warning: step .* host .* is slow: in 20 steps .* now rank 1, took' "$work/out"; }
check "a slow rank: one line" test "$(slow_lines)" = 1
slowest() { grep slowest_rank "$work/run/metrics.jsonl" | tail -n 20 | grep -c '"slowest_rank": 1, "slowest_host": "[^"]'; }
check "a slow rank: in the metrics" test "$(slowest)" = 20

# 2. Replicas: each kind of flip is found, on meshes that replicate in different ways.
flips() { # NAME RANKS KINDS WORDS...
  local name=$1 ranks=$2 kinds=$3 kind
  shift 3
  for kind in $kinds; do
    train "$ranks" "$@" debug.fault=flip_$kind@2@1 health.check_replicas_every=1
    check "$name: $kind" expect 81 "after step .*hold different bits\|rank 1 differs from ranks"
  done
}
flips data 3 "sign exponent mantissa moment" batch.global=6
flips bf16 2 mantissa precision.compute=bf16
flips copies 4 mantissa parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=2 \
  batch.global=8
clean() { # NAME RANKS WORDS...: no false alarm
  local name=$1 ranks=$2
  shift 2
  train "$ranks" "$@" health.check_replicas_every=1 checkpoint.every=0
  check "$name: no false alarm" test "$status" = 0
}
clean tensor 4 parallel.tensor=2 batch.global=8
clean pipeline 4 model.layers=2 parallel.pipeline=2 model.tie_embeddings=true
clean context 4 parallel.context=2
clean bf16 2 precision.compute=bf16 parallel.sharding_strategy=SHARD_GRAD_OP
clean shards 4 parallel.sharding_strategy=FULL_SHARD batch.global=8
clean experts 4 model.architecture=mixtral model.moe.experts=4 model.feed_forward=24 \
  parallel.expert=2 batch.global=8

# 3. Steps: a gradient that is no number is skipped everywhere, and named.
train 2 run.steps=6 health.nan=skip debug.fault=nan_gradient@3@1 \
  parallel.sharding_strategy=FULL_SHARD
check "a skipped step" test "$status" = 0
check "names rank and tensor" \
  grep -q "step 3: .*not finite: the gradient of .* on rank 1; samples" "$work/out"
check "the next losses are finite" \
  test "$(field "$work/run/metrics.jsonl" loss | grep -c null)" = 0
# ... also where gradients are kept in few bits
train 2 run.steps=6 health.nan=skip debug.fault=nan_gradient@3@1 \
  parallel.sharding_strategy=FULL_SHARD precision.compute=fp8 precision.recipe=fp8_lm
check "a skipped step of FP8 gradients" test "$status" = 0
check "names rank and tensor of FP8 gradients" \
  grep -q "step 3: .*not finite: the gradient of .* on rank 1; samples" "$work/out"
check "the next losses of FP8 gradients are finite" \
  test "$(field "$work/run/metrics.jsonl" loss | grep -c null)" = 0
train 2 run.steps=6 health.nan=skip debug.fault=nan_loss@3@1
check "the rank of a loss" grep -q "not finite: the loss of rank 1" "$work/out"
# ... on the tensor axis too, whose ranks have a loss each; fp16 halves its scale
for mesh in parallel.tensor=2 parallel.context=2 parallel.pipeline=2; do
  train 2 $mesh precision.compute=fp16 debug.fault=nan_loss@3@1
  check "fp16, $mesh: an overflow" test "$status" = 0
  check "fp16, $mesh: one for all" \
    grep -q '"loss_scale": 32768, "overflows": 1' "$work/run/metrics.jsonl"
done
train 2 run.steps=9 health.nan=skip health.skip_limit=2 debug.fault=nan@3@0
check "too many skips" expect 80 "step 5: .*3 of the last 100 steps"
spike="health.spike=stop health.spike_window=4 run.steps=8"
train 2 $spike debug.fault=spike@7@0
check "a spike" expect 80 "step 7: loss .* standard deviations"
# ... also right after a restart, from what the metrics remember
rm -rf "$work/run"
run 2 train $deck run.directory="$work/run" $base run.steps=6
run 2 train $deck run.directory="$work/run" $base $spike debug.fault=spike@7@0
check "a spike after a restart" expect 80 "step 7: loss .* standard deviations"
check "no steps are missing" test "$(grep -c 'warning: .*metrics.jsonl' "$work/out")" = 0
# ... and with a word where they are gone, or lack steps
rm -rf "$work/run"
run 2 train $deck run.directory="$work/run" $base run.steps=6
sed -i '/"step": [56],/d' "$work/run/metrics.jsonl"
run 2 train $deck run.directory="$work/run" $base $spike run.steps=7
check "missing steps" \
  grep -q 'warning: .*/metrics.jsonl: has steps up to 4, but the run resumes at step 6: health.spike' "$work/out"
rm "$work/run/metrics.jsonl"
run 2 train $deck run.directory="$work/run" $base $spike run.steps=8
check "a missing file" grep -q 'warning: .*/metrics.jsonl: has no steps' "$work/out"

# 4. Collectives are compared: a sound run has the same losses.
train 4 parallel.tensor=2 batch.global=8
field "$work/run/metrics.jsonl" loss >"$work/plain"
train 4 parallel.tensor=2 batch.global=8 debug.check_collectives=true
check "compared collectives" test "$status" = 0
field "$work/run/metrics.jsonl" loss >"$work/compared"
check "the same losses" cmp "$work/plain" "$work/compared"
finish
