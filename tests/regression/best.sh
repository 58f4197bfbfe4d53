#!/usr/bin/env bash
# checkpoint.keep_best: the lowest validation losses stay, and `best` is a model.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
# A rate at which the loss of step 2 is among the lowest for a while.
base=(precision.compute=fp32 model.layers=1 data.validation_paths='["SECURITY.md"]'
  metrics.validate_every=2 metrics.validate_sequences=8 checkpoint.every=2
  checkpoint.keep=1 checkpoint.keep_best=2 optimizer.schedule.warmup=0
  optimizer.schedule.name=constant optimizer.learning_rate=0.1)

# kept RUN [STEP]: its checkpoints are the newest and the two with the lowest losses that
# metrics.jsonl has, and the step that it started from; the links name the newest and the best.
kept() {
  local own=$work/$1/checkpoints
  grep '"kind": "validation"' "$work/$1/metrics.jsonl" |
    sed 's/.*"step": \([0-9]*\).*"validation_loss": \([^,}]*\).*/\2 \1/' >"$work/losses"
  sort -g "$work/losses" | head -2 | cut -d' ' -f2 >"$work/best"
  { cat "$work/best"; tail -1 "$work/losses" | cut -d' ' -f2; echo "${2:-}"; } | grep . | sort -nu |
    while read -r step; do printf 'step-%08d\n' "$step"; done >"$work/expected"
  cat "$work/losses"
  ls -d "$own"/step-* | sed 's|.*/||' | diff - "$work/expected" || return 1
  [ "$(readlink "$own/best")" = "$(printf 'step-%08d' "$(head -1 "$work/best")")" ] ||
    { ls -l "$own"; return 1; }
  [ "$(readlink "$own/latest")" = "$(tail -1 "$work/expected")" ]
}

run 1 train $deck "${base[@]}" run.directory="$work/one" run.steps=6
check "a run" test "$status" = 0
check "keeps the best" kept one
check "says which is the best" grep -q '^step 2  best checkpoint so far: validation loss' "$work/out"
run 1 train $deck "${base[@]}" run.directory="$work/one" run.steps=8
check "it goes on" test "$status" = 0
check "and keeps the best of both starts" kept one 6
check "of which one is the first" test -e "$work/one/checkpoints/step-00000002"
run 2 train $deck "${base[@]}" run.directory="$work/two" run.steps=8 checkpoint.async=true
check "two ranks, in the background" kept two

best=$work/one/checkpoints/best
step=$(readlink "$best" | sed 's/step-0*//')
run 1 inspect "$best"
check "inspect takes the best" grep -q "step $step," "$work/out"
run 1 evaluate "$best" SECURITY.md
check "evaluate does" grep -q '^loss ' "$work/out"
run 1 generate "$best" --prompt The --tokens 4
check "generate does" test "$status" = 0
run 1 convert "$best" "$work/folder"
check "convert does" test -e "$work/folder/config.json"
run 1 train $deck "${base[@]}" run.directory="$work/from" run.steps=14 \
  checkpoint.resume="$best"
check "a run that starts from it" test "$status" = 0

# A file that says nothing: no checkpoint is taken for a bad one.
echo broken >"$work/two/checkpoints/best.json"
run 1 train $deck "${base[@]}" run.directory="$work/two" run.steps=10
check "a broken best.json" grep -q 'warning.*none is removed.*best.json' "$work/out"
check "ends no run" test "$status" = 0
check "and removes none" test "$(ls -d "$work/two/checkpoints"/step-* | wc -l)" -ge 3

refused() {
  run 2 train $deck "${base[@]}" run.directory="$work/bad" run.steps=12 "$@"
  check "$*" expect 65 "checkpoint.keep_best = 2"
}
refused metrics.validate_every=0
refused checkpoint.every=0
refused checkpoint.every=5 metrics.validate_every=4
finish
