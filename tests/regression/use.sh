#!/usr/bin/env bash
# What a user does after training: generate, evaluate, inspect, plan, HDF5's own tools.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml

head -c 3001 LICENSE >"$work/text"
run 4 train $deck run.directory="$work/run" run.steps=30 checkpoint.every=30 parallel.tensor=2 \
  metrics.validate_every=30 "data.validation_paths=[\"$work/text\"]" metrics.validate_sequences=0
check "training with validation" test "$status" = 0
validation=$(field "$work/run/metrics.jsonl" validation_loss)
check "validation was recorded" test -n "$validation"

run 1 evaluate "$work/run" "$work/text" --logits "$work/logits.h5"
check "evaluate" test "$status" = 0
grep -o 'loss [^ ]*' "$work/out" | cut -d' ' -f2 >"$work/a"
echo "$validation" >"$work/b"
check "evaluation equals validation" close_values "$work/a" "$work/b" 1e-10
run 2 evaluate "$work/run" "$work/text" --logits "$work/logits2.h5"
grep -o 'loss [^ ]*' "$work/out" | cut -d' ' -f2 >"$work/a"
check "on two ranks as well" close_values "$work/a" "$work/b" 1e-10
check "with the same logits" "$H5_COMPARE" "$work/logits2.h5" "$work/logits.h5" 1e-10

printf 'few' >"$work/few"
run 1 evaluate "$work/run" "$work/few"
check "data shorter than a window" expect 65 'few: the data has . tokens, .* or a smaller --sequence$'
run 1 evaluate "$work/run" "$work/few" --sequence 2
check "and a shorter window" test "$status" = 0
run 1 train $deck run.directory="$work/few.run" run.steps=1 "data.paths=[\"$work/few\"]" \
  optimizer.schedule.warmup=0
check "training on it" expect 65 'few: the data has . tokens, .* or a smaller model.sequence$'

# Training on exactly one global batch: the loss of the next step is the evaluation's.
head -c $((32 * 12)) LICENSE >"$work/batch"
one="data.paths=[\"$work/batch\"] batch.global=12"
run 2 train $deck run.directory="$work/one" $one run.steps=3 optimizer.schedule.name=constant \
  optimizer.schedule.warmup=0 checkpoint.every=2 checkpoint.keep=0
field "$work/one/metrics.jsonl" loss | tail -1 >"$work/b"
run 1 evaluate "$work/one/checkpoints/step-00000002" "$work/batch"
grep -o 'loss [^ ]*' "$work/out" | cut -d' ' -f2 >"$work/a"
check "evaluation equals the next training loss" close_values "$work/a" "$work/b" 1e-10

run 1 generate "$work/run" --prompt "The license" --tokens 60 --temperature 0
check "generate" test "$status" = 0
cp "$work/out" "$work/a"
run 2 generate "$work/run" --prompt "The license" --tokens 60 --temperature 0
check "generate on two ranks gives the same text" cmp "$work/out" "$work/a"
run 4 generate "$work/run" --prompt "The license" --tokens 60 --temperature 0
check "generate on four ranks gives the same text" cmp "$work/out" "$work/a"
run 4 generate "$work/run" --prompt "x" --tokens 100 --temperature 1 --top-k 20 --top-p 0.9 --seed 5
check "generate past the sequence" test "$status" = 0

run 1 inspect "$work/run"
check "inspect is a summary" bash -c "grep -q '^model  .* fp' '$work/out' && test \$(wc -l <'$work/out') -lt 12"
check "when it was saved, where, at which loss" \
  grep -qE '^saved 20[0-9]+-.*Z on .*, loss [0-9.]+, commit ' "$work/out"
run 1 inspect "$work/run" --tensors
check "inspect" grep -q 'model/model.layers.1.mlp.down_proj.weight' "$work/out"
if command -v h5ls >/dev/null; then
  h5ls -r "$work/run/checkpoints/latest/checkpoint.h5" >"$work/out" 2>&1
  check "h5ls shows whole tensors" grep -q 'lm_head.weight *Dataset {257, 32}' "$work/out"
  for name in loss written host commit; do
    check "the attribute $name" h5dump -a "/$name" "$work/run/checkpoints/latest/checkpoint.h5"
  done
fi
run 1 plan $deck --ranks 64 parallel.tensor=4 batch.global=16
check "plan of a mesh that is not there" grep -q '64 ranks = pipeline 1 x data 16' "$work/out"
run 1 help
check "the overview fits a screen" test "$(wc -l <"$work/out")" -le 32
check "and has the exit statuses" grep -q '81 corruption suspected' "$work/out"
check "but not all options" bash -c "! grep -q -- --min-frequency '$work/out'"
check "it needs no MPI" bash -c "OMPI_MCA_pml=absent '$TRIREME' help >'$work/a' && grep -q '81 corruption' '$work/a'"
run 3 help
check "three ranks say it once" test "$(grep -c '81 corruption' "$work/out")" = 1
run 1 help all
check "all options are one word further" grep -q -- '--min-frequency N' "$work/out"
for command in tokenize sweep 'generate x' 'encode' status; do
  run 1 $command
  check "$command: an error in lines of 100 columns" expect 64 'trireme: error: '
  check "$command: all of them" test "$(awk 'length($0) > 100' "$work/out")" = ""
done
check "a word of other programs" grep -q "did you mean 'sweep'" "$work/out"
run 1 help deck
check "help deck" grep -q 'sharding_strategy' "$work/out"
run 1 --version
for name in "Open MPI" HDF5 oneDNN Kokkos compiler TOML; do
  check "--version names $name" grep -qi "$name" "$work/out"
done
finish
