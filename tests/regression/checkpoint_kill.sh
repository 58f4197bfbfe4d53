#!/usr/bin/env bash
# A run that is killed at any system call of its saves goes on from a whole checkpoint.
# SPDX-License-Identifier: Apache-2.0
# It ends with the bits of the undisturbed one; a save that fails ends it with its status.
# Every TRIREME_KILL_STRIDE-th call is tried (default 61; 1: all of them).
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
stride=${TRIREME_KILL_STRIDE:-61}
if [ -z "${TRIREME_IO_FAULTS:-}" ]; then
  echo "skipped: TRIREME_IO_FAULTS names no library"
  exit 77
fi
base="run.steps=4 precision.compute=fp32 checkpoint.every=2 checkpoint.keep=1
      model.layers=1"

# faulty RANKS NAME KIND AT ERROR RANK WORDS: a run with a fault at a call of a rank. Kinds:
# 0 count, 1 once, 2 from there on, 4 kill.
faulty() {
  local ranks=$1 name=$2 kind=$3 at=$4 error=$5 rank=$6
  shift 6
  export IO_FAULTS="$work/$name/checkpoints:$kind:$at:$error"
  export IO_FAULTS_REPORT="$work/calls"
  if [ "$ranks" = 1 ]; then unset IO_FAULTS_RANK; else export IO_FAULTS_RANK=$rank; fi
  local clean=$TRIREME
  TRIREME="$work/faulty"
  run "$ranks" train $deck run.directory="$work/$name" $base "$@"
  TRIREME=$clean
  unset IO_FAULTS IO_FAULTS_REPORT IO_FAULTS_RANK
}
cat >"$work/faulty" <<EOF
#!/bin/sh
LD_PRELOAD="$TRIREME_IO_FAULTS" exec "$TRIREME" "\$@"
EOF
chmod +x "$work/faulty"

# identical NAME: losses and shards of the disturbed run equal those of the undisturbed.
identical() {
  field "$work/run/metrics.jsonl" loss >"$work/a"
  field "$work/whole$1/metrics.jsonl" loss >"$work/b"
  cmp "$work/a" "$work/b" || return 1
  local shard
  for shard in "$work/whole$1"/checkpoints/step-00000004/shard-*; do
    cmp "$shard" "$work/run/checkpoints/step-00000004/$(basename "$shard")" || return 1
  done
}

sweep() { # RANKS ASYNC RANK [RANKS_PER_FILE]
  local ranks=$1 async=$2 rank=$3 at calls tried=0 whole=$1${4:+-$4}
  local base="$base checkpoint.ranks_per_file=${4:-1}"
  rm -rf "$work/run" "$work/calls"
  faulty "$ranks" run 0 0 0 "$rank" checkpoint.async="$async"
  check "$ranks ranks, async $async: undisturbed" identical "$whole"
  calls=$(cat "$work/calls")
  for ((at = 1 + stride / 3; at <= calls; at += stride)); do
    rm -rf "$work/run"
    faulty "$ranks" run 4 "$at" 0 "$rank" checkpoint.async="$async"
    [ "$status" != 0 ] || echo "call $at of $calls: the run came to its end"
    run "$ranks" train $deck run.directory="$work/run" $base checkpoint.async="$async"
    check "$ranks ranks, async $async: killed at call $at of $calls: goes on" \
      test "$status" = 0
    check "$ranks ranks, async $async: killed at call $at of $calls: same bits" \
      identical "$whole"
    check "$ranks ranks, async $async: killed at call $at of $calls: views" \
      test -e "$work/run/checkpoints/step-00000004/checkpoint.h5"
    tried=$((tried + 1))
  done
  echo "$ranks ranks, async $async, rank $rank: killed at $tried of $calls calls"
}

for ranks in 1 2; do
  run "$ranks" train $deck run.directory="$work/whole$ranks" $base
  check "$ranks ranks: undisturbed" test "$status" = 0
  for async in false true; do sweep "$ranks" "$async" 0; done
done
sweep 2 true 1

# Both ranks write one file: the second adds to what the first has written.
run 2 train $deck run.directory="$work/whole2-2" $base checkpoint.ranks_per_file=2
check "one file: undisturbed" test "$status" = 0
check "one file" test "$(ls "$work/whole2-2/checkpoints/latest/" | grep -c '^shard-')" = 1
stride=$((3 * stride))
sweep 2 true 1 2

# Failing calls: ENOSPC is 28, EDQUOT 122, EIO 5.
for error in 28 122 5; do
  for async in false true; do
    rm -rf "$work/run"
    run 2 train $deck run.directory="$work/run" $base run.steps=2 \
      optimizer.schedule.warmup=2
    faulty 2 run 2 9 "$error" 1 checkpoint.async="$async"
    check "errno $error, async $async" expect 74 "run/checkpoints/"
    run 1 inspect "$work/run" --verify
    check "errno $error, async $async: the one before is whole" test "$status" = 0
    check "and is step 2" grep -q "step 2," "$work/out"
  done
done
finish
