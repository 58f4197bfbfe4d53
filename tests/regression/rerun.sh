#!/usr/bin/env bash
# Steps that are computed twice, and steps whose samples are passed over.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
base="run.steps=4 precision.compute=fp32"
# train NAME RANKS WORDS...: a run in $work/NAME.
train() {
  local name=$1 ranks=$2
  shift 2
  rm -rf "$work/$name"
  run "$ranks" train $deck run.directory="$work/$name" $base "$@"
}
has() { grep -q -- "$1" "$work/out" || { echo "the output lacks: $1"; return 1; }; }

# 1. A second run of each step changes no bit.
same() { # NAME RANKS WORDS...
  local name=$1 ranks=$2
  shift 2
  train plain "$ranks" "$@"
  check "$name: without" test "$status" = 0
  train twice "$ranks" "$@" health.rerun_every=1
  check "$name: twice" test "$status" = 0
  check "$name: the same bits" identical plain twice
}
same dense 2 parallel.sharding_strategy=FULL_SHARD
same replicas 2 parallel.sharding_strategy=NO_SHARD model.tie_embeddings=true
same dropout 2 model.dropout.residual=0.1 model.dropout.attention=0.1 parallel.sharding_strategy=SHARD_GRAD_OP
same fp8 2 precision.compute=fp8 precision.recipe=te_delayed model.vocabulary=272
same fp8_lm 2 precision.compute=fp8 precision.recipe=fp8_lm model.vocabulary=272
same experts 2 model.architecture=mixtral model.moe.experts=4 model.feed_forward=24 parallel.expert=2
same pipeline 2 parallel.pipeline=2 parallel.schedule=zb_h1
same tensor 2 parallel.tensor=2 precision.compute=fp16

# 2. A rank that computes wrongly once is found, in whatever way gradients are summed,
# before anything wrong is saved.
for strategy in FULL_SHARD NO_SHARD SHARD_GRAD_OP; do
  TRIREME_BAD_HOSTS=$work/bad train flipped 2 parallel.sharding_strategy=$strategy \
    health.rerun_every=1 debug.fault=flip_gradient@3@1 checkpoint.every=1
  check "$strategy: a flipped bit" expect 81 \
    "step 3, computed twice .*: the gradient of .* of its own microbatches, .* on rank 1 (host "
  check "$strategy: nothing wrong is saved" test ! -e "$work/flipped/checkpoints/step-00000003"
  check "$strategy: the host for the job's script" grep -q . "$work/bad"
  rm -f "$work/bad"
done
train flipped 2 parallel.sharding_strategy=FULL_SHARD debug.fault=flip_gradient@3@1
check "a step that is sound all the same is not doubted" test "$status" = 0
# ... a tensor rank is not told apart from its partner, whose numbers it enters
train flipped 2 parallel.tensor=2 health.rerun_every=2 debug.fault=flip_gradient@2@1
check "on the tensor axis" expect 81 "step 2, computed twice"
# ... a sum that was made of it tells of it, but not of the rank
spike="health.spike=stop health.spike_window=4 health.spike_threshold=50 run.steps=8"
TRIREME_BAD_HOSTS=$work/bad train flipped 2 parallel.sharding_strategy=FULL_SHARD $spike \
  debug.fault=flip_gradient@7@1
check "a step that is not sound" expect 81 "step 7, computed twice .*: the sum over ranks of .* does not tell"
check "nobody is named for a sum" test ! -e "$work/bad"
train flipped 2 parallel.sharding_strategy=FULL_SHARD $spike health.rerun=false \
  debug.fault=flip_gradient@7@1
check "without a second run" expect 80 "step 7: gradient norm .* standard deviations"

# 3. What is wrong in the data or in the weights is so twice.
same_twice="a second run gave the same bits"
train data 2 health.nan=skip debug.fault=nan_gradient@3@1 parallel.sharding_strategy=FULL_SHARD
check "a gradient that is no number" test "$status" = 0
check "the same twice" has "step 3: .*not finite: the gradient of .* on rank 1; samples .*; $same_twice"
train data 2 debug.fault=nan@3@0
check "a weight that is no number" expect 80 "step 3: .*$same_twice"
train data 2 debug.fault=nan_loss@3@0 health.rerun=false
check "health.rerun = false" expect 80 "step 3"
check "... runs nothing twice" test "$(grep -c "$same_twice" "$work/out")" = 0
train data 2 precision.compute=fp16 debug.fault=nan_loss@3@0
check "an overflow of fp16 is none" test "$status" = 0

# 4. Steps that are passed over: the same on other meshes, and after a restart.
long="run.steps=9 precision.compute=fp64 data.skip_steps=[\"1\",\"4-6\",\"9\"]"
losses() { field "$work/$1/metrics.jsonl" loss >"$work/$1.losses"; }
train one 1 $long
check "passed over" test "$status" = 0
check "are named" has "steps 4 to 6 are passed over (data.skip_steps): samples 36 to 71 of the order"
losses one
check "have no line" test "$(wc -l <"$work/one.losses")" = 4
train two 2 $long
losses two
check "on two data ranks" close_values "$work/one.losses" "$work/two.losses" 1e-12
train pipeline 2 $long parallel.pipeline=2
losses pipeline
check "on two stages" close_values "$work/one.losses" "$work/pipeline.losses" 1e-12
train resumed 2 $long run.steps=9 checkpoint.every=5 debug.fault=throw@7@0
check "an interruption" expect 70 "injected fault"
run 2 train $deck run.directory="$work/resumed" $base $long checkpoint.every=5
check "a restart within them" test "$status" = 0
check "... goes on to the bit" identical two resumed
check "... with an event for each" test "$(grep -c '"passed over"' "$work/resumed/metrics.jsonl")" = 5
train first 1 precision.compute=fp64 run.steps=5 'data.skip_steps=["1-3"]'
check "the first steps are said once" test "$(grep -c 'are passed over' "$work/out")" = 1
check "... and each has an event" test "$(grep -c '"passed over"' "$work/first/metrics.jsonl")" = 3
check "... no part of those done" has "done      2 steps"
train none 1 run.steps=4 'data.skip_steps=["1-4"]'
check "nothing to train" has "no step was trained"
# ... the rates of groups go on with the schedule, and steps that are refused count as little
falls="run.steps=6 precision.compute=fp64 optimizer.schedule.name=linear optimizer.schedule.warmup=0"
train plain 1 $falls 'data.skip_steps=["2-4"]' optimizer.learning_rate=0.01
train groups 1 $falls 'data.skip_steps=["2-4"]' optimizer.learning_rate=0.01 'optimizer.groups=["*mlp* learning_rate=0.01"]'
losses plain
losses groups
check "a group's own rate falls with the schedule" cmp "$work/plain.losses" "$work/groups.losses"
train refused 2 run.steps=6 precision.compute=fp64 health.nan=skip debug.fault=nan_gradient@1@0
train without 2 run.steps=6 precision.compute=fp64 'data.skip_steps=["1"]'
losses refused
losses without
check "a refused step is no update" cmp <(tail -n 5 "$work/refused.losses") "$work/without.losses"
train again 2 run.steps=6 precision.compute=fp64 health.nan=skip debug.fault=nan_gradient@1@0 checkpoint.every=3
rm -r "$work/again/checkpoints/step-00000006"
run 2 train $deck run.directory="$work/again" $base run.steps=6 precision.compute=fp64 health.nan=skip
check "... nor after a restart" grep -q 'resume .*step 3' "$work/out"
losses again
check "... which goes on to the bit" cmp <(tail -n 3 "$work/again.losses") <(tail -n 3 "$work/refused.losses")
# ... by an earlier checkpoint, beside the run that had trained on them
train before 2 precision.compute=fp64 checkpoint.every=2 checkpoint.at_end=false run.steps=5
run 2 train $deck run.directory="$work/before" $base precision.compute=fp64 run.steps=5 'data.skip_steps=["5"]'
check "a key that is new after a restart" test "$status" = 0

# 5. A comparison of replicas that has nothing to compare says so.
nothing="each rank alone holds its part of the weights"
train shards 2 parallel.sharding_strategy=FULL_SHARD health.check_replicas_every=2
check "nothing to compare" has "warning: health.check_replicas_every = 2: $nothing"
train whole 2 health.check_replicas_every=2
check "something to compare" test "$(grep -c "$nothing" "$work/out")" = 0
finish
