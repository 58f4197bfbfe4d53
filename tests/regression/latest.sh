#!/usr/bin/env bash
# The newest whole checkpoint counts, not the link `latest`.
# SPDX-License-Identifier: Apache-2.0
# A save that fails or is killed at its last renames leaves nothing wrong after the next
# start, also one that has nothing to do.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
if [ -z "${TRIREME_IO_FAULTS:-}" ]; then
  echo "skipped: TRIREME_IO_FAULTS names no library"
  exit 77
fi
base="precision.compute=fp32 model.layers=1 checkpoint.every=2 checkpoint.keep=0
      run.steps=4"
run 1 train $deck run.directory="$work/whole" $base
check "undisturbed" test "$status" = 0
tensors() { "$TRIREME" inspect "$1" --tensors | grep -E '^[0-9a-f]{32}'; }
tensors "$work/whole" >"$work/digests"

# mended: `latest` and the folder are those of a run that nothing disturbed.
mended() {
  [ "$(readlink "$work/run/checkpoints/latest")" = step-00000004 ] ||
    { readlink "$work/run/checkpoints/latest"; return 1; }
  [ "$(ls -A "$work/run/checkpoints" | tr '\n' ' ')" = \
    "latest step-00000002 step-00000004 " ] || { ls -A "$work/run/checkpoints"; return 1; }
  tensors "$work/run/checkpoints/latest" | diff - "$work/digests"
}

cat >"$work/faulty" <<SCRIPT
#!/bin/sh
LD_PRELOAD="$TRIREME_IO_FAULTS" exec "$TRIREME" "\$@"
SCRIPT
chmod +x "$work/faulty"
# faulty KIND AT: the second save of a run, with a fault at a call. Kinds: 0 count, 1 once,
# 4 kill, 6 all that reads from there on.
faulty() {
  rm -rf "$work/run"
  cp -r "$work/first" "$work/run"
  local clean=$TRIREME
  export IO_FAULTS="$work/run/checkpoints:$1:$2:5" IO_FAULTS_REPORT="$work/calls"
  TRIREME="$work/faulty"
  run 1 train $deck run.directory="$work/run" $base
  TRIREME=$clean
  unset IO_FAULTS IO_FAULTS_REPORT
}
run 1 train $deck run.directory="$work/first" $base debug.fault=kill@3@0
check "stopped after its first save" test -e "$work/first/checkpoints/step-00000002"
faulty 0 0
check "the second save" mended
calls=$(cat "$work/calls")
# The last calls are the rename of the folder, its sync, and of `latest`: unlink, symlink,
# rename, sync. Each fault is a kind and how many calls there are after it.
for fault in 1:5 1:2 1:1 4:4 4:2 4:1; do
  kind=${fault%:*} at=$((calls - ${fault#*:}))
  faulty $kind "$at"
  ended=$status
  run 1 train $deck run.directory="$work/run" $base
  check "kind $kind at call $at of $calls (status $ended): started again" \
    test "$status" = 0
  check "kind $kind at call $at of $calls (status $ended): mended" mended
done

# What cannot be read may be whole: it is not passed over, and nothing is written in its place.
faulty 6 1
check "a checkpoint that cannot be read" expect 74 'step-00000002/.*this checkpoint may be whole'
run 1 train $deck run.directory="$work/run" $base
check "once it can be read" test "$status" = 0
check "the run goes on from it" mended

# A run that is done, whose folder is not: a stale link, and what crashes left.
ln -sfn step-00000002 "$work/run/checkpoints/latest"
ln -s nowhere "$work/run/checkpoints/.latest.tmp"
mkdir "$work/run/checkpoints/.step-00000006.tmp"
cp -r "$work/run/checkpoints/step-00000002" "$work/run/checkpoints/.trash-step-00000001"
run 1 inspect "$work/run"
check "readers take the newest" grep -q 'step 4,' "$work/out"
run 1 train $deck run.directory="$work/run" $base
check "nothing to do" grep -q 'nothing to do' "$work/out"
check "and yet mended" mended
mv "$work/run/checkpoints/step-00000004" "$work/run/checkpoints/.trash-step-00000004"
run 1 train $deck run.directory="$work/run" $base
check "set aside, and back" mended
check "with nothing to do" grep -q 'nothing to do' "$work/out"

# Passed over: the message says what is taken.
printf x >>"$work/run/checkpoints/step-00000004/shard-00000.h5"
run 1 train $deck run.directory="$work/run" $base
check "damage names what is taken instead" \
  grep -q 'shard-00000.h5.*step-00000002 will be taken' "$work/out"

# A folder that was renamed is not the checkpoint of the step in its new name.
mv "$work/run/checkpoints/step-00000004" "$work/run/checkpoints/step-00000009"
run 1 inspect "$work/run"
check "a renamed checkpoint" expect 65 "holds step 4: give the folder its name back"
mv "$work/run/checkpoints/step-00000009" "$work/run/checkpoints/step-00000004"

# Another precision: the scale of the loss starts anew, and the log says so.
run 1 train $deck run.directory="$work/half" $base precision.compute=fp16 run.steps=5 \
  checkpoint.resume="$work/whole"
check "an fp32 checkpoint starts fp16" test "$status" = 0
check "with a scale of its own" grep -q 'loss scale starts from precision.loss_scale' \
  "$work/out"

# A checkpoint of another directory: what metrics.jsonl has of another run is set aside.
mkdir "$work/other"
cp "$work/half/metrics.jsonl" "$work/other"
for resume in "$work/whole" auto; do
  run 1 train $deck run.directory="$work/other" $base run.steps=6 checkpoint.resume="$resume"
  check "from another directory, then $resume" test "$status" = 0
  check "the other run's lines are set aside" \
    cmp "$work/half/metrics.jsonl" "$work/other/metrics-1.jsonl"
  check "its own are those of steps 5 and 6" \
    test "$(field "$work/other/metrics.jsonl" loss | wc -l)" = 2
  check "set aside once" test ! -e "$work/other/metrics-2.jsonl"
done
# Its own checkpoint by another path is no other run's.
ln -s whole "$work/same"
run 1 train $deck run.directory="$work/whole" $base run.steps=5 \
  checkpoint.resume="$work/same/checkpoints/latest"
check "its own checkpoint by another path" test "$status" = 0
check "goes on with its lines" test "$(field "$work/whole/metrics.jsonl" loss | wc -l)" = 5
check "and sets none aside" test ! -e "$work/whole/metrics-1.jsonl"
finish
