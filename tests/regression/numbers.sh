#!/usr/bin/env bash
# Numbers that a run reports and keeps are what they are called.
# SPDX-License-Identifier: Apache-2.0
# Validation is plain cross-entropy, groups' values hold, SGD keeps no state that it does
# not need, the samples of a step are listed.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
head -c 1501 LICENSE >"$work/text"
few="run.steps=2 optimizer.schedule.warmup=0 checkpoint.every=2 batch.global=4"

# evaluation RUN NAME: the loss of `evaluate` and that of the run's last validation.
evaluation() {
  run 1 evaluate "$work/$1" "$work/text"
  grep -o 'loss [^ ]*' "$work/out" | cut -d' ' -f2 >"$work/a"
  field "$work/$1/metrics.jsonl" validation_loss | tail -1 >"$work/b"
  check "$1: validation is evaluation" close_values "$work/a" "$work/b" 1e-10
}

# 1. Validation has no part of what training adds to the loss, on any mesh.
validates="metrics.validate_every=2 data.validation_paths=[\"$work/text\"] metrics.validate_sequences=0"
z="model.z_loss=0.5"
run 1 train $deck run.directory="$work/alone" $few $validates $z
check "training with a z-loss" test "$status" = 0
evaluation alone
run 1 train $deck run.directory="$work/unvalidated" $few $z
check "training is the same without, to the bit" identical unvalidated alone
for mesh in "parallel.pipeline=2" "parallel.tensor=2" "parallel.context=2"; do
  run 2 train $deck run.directory="$work/$mesh" $few $validates $z "$mesh"
  evaluation "$mesh"
done
run 2 train $deck run.directory="$work/mixture" $few $validates $z model.architecture=mixtral \
  model.moe.experts=4 model.moe.aux_loss=0.5 model.moe.z_loss=0.5 model.moe.capacity_factor=1 \
  batch.micro=2 parallel.expert=2
evaluation mixture

# 2. A group's rate trains beside a base of 0, and only its tensors.
tensor() { run 1 inspect "$1" --tensors; grep "  *$2" "$work/out" >"$work/tensor"; cat "$work/tensor"; }
groups='optimizer.groups=["model.norm.weight learning_rate=0.5 weight_decay=0.1"]'
run 1 train $deck run.directory="$work/groups" $few optimizer.learning_rate=0 "$groups"
check "groups beside a base of 0" test "$status" = 0
run 1 train $deck run.directory="$work/still" $few optimizer.learning_rate=0
"$H5_COMPARE" "$work/groups/checkpoints/latest/checkpoint.h5" \
  "$work/still/checkpoints/latest/checkpoint.h5" 1e-10 >"$work/compare" 2>&1
check "the group's tensor has moved" grep -q 'model/model.norm.weight' "$work/compare"
check "and no other weight" test "$(grep -c 'model/' "$work/compare")" = 1

# 3. SGD without momentum keeps none; what was kept before is passed over, and what is
# wanted anew starts from zero, with a word.
sgd="optimizer.name=sgd optimizer.learning_rate=0.1"
run 2 train $deck run.directory="$work/sgd" $few $sgd "optimizer.betas=[0, 0]" \
  parallel.sharding_strategy=ZERO1
check "sgd without momentum" test "$status" = 0
run 1 inspect "$work/sgd" --tensors
check "has no moments" test "$(grep -c optimizer/moment "$work/out")" = 0
run 1 train $deck run.directory="$work/sgd" $few $sgd "optimizer.betas=[0.9, 0]" run.steps=4
check "momentum may begin" test "$status" = 0
check "and it is said" grep -q 'momentum starts from zero' "$work/out"
run 1 train $deck run.directory="$work/sgd" $few $sgd "optimizer.betas=[0, 0]" run.steps=6
check "and end" test "$status" = 0
run 1 train $deck run.directory="$work/sgd" $few run.steps=8
check "but adamw has no second moments to go on with" expect 65 'has no second moments'

# 4. The samples of a step.
run 2 train $deck run.directory="$work/samples" $few "debug.dump_samples=[2]"
check "a run that lists samples" test "$status" = 0
check "the list" test "$(wc -l <"$work/samples/samples/step-00000002.jsonl")" = 4
check "names files" grep -q '"file": *"[^"]*LICENSE"' "$work/samples/samples/step-00000002.jsonl"
check "of that step only" test "$(ls "$work/samples/samples" | wc -l)" = 1
run 1 train $deck run.directory="$work/none" $few "debug.dump_samples=[3]" --check
check "no step after the last" expect 65 'names a step after run.steps'

# 5. What is advised is accepted.
run 1 train $deck --check --ranks 8 model.hidden=96 model.heads=12 parallel.tensor=8 batch.global=24
check "12 heads on 8 tensor ranks" test "$status" = 65
check "have a divisor to write" grep -q 'parallel.tensor = [124]\b' "$work/out"
check "and no other" test "$(grep -c 'or less' "$work/out")" = 0
finish
