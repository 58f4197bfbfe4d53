#!/usr/bin/env bash
# A conversion that is killed at any system call goes on, and ends with the same bytes.
# SPDX-License-Identifier: Apache-2.0
# Every TRIREME_KILL_STRIDE-th call is tried (default 41; 1: all of them).
. "$(dirname "$0")/folder_lib.sh"
stride=${TRIREME_KILL_STRIDE:-41}
if [ -z "${TRIREME_IO_FAULTS:-}" ]; then
  echo "skipped: TRIREME_IO_FAULTS names no library"
  exit 77
fi

# faulty RANKS KIND AT ARGS...: a conversion with a fault at a call below $work/to; what it
# writes lies there, or in .to.tmp beside it. Kinds: 0 count, 1 fail once, 4 kill.
faulty() {
  local ranks=$1 clean=$TRIREME
  export IO_FAULTS_REPORT="$work/calls" IO_FAULTS="$target:$2:$3:28"
  [ "$ranks" = 1 ] || export IO_FAULTS_RANK=0
  shift 3
  TRIREME="$work/faulty"
  run "$ranks" convert "$@" 2>/dev/null
  TRIREME=$clean
  unset IO_FAULTS IO_FAULTS_REPORT IO_FAULTS_RANK
}
cat >"$work/faulty" <<EOF2
#!/bin/sh
LD_PRELOAD="$TRIREME_IO_FAULTS" exec "$TRIREME" "\$@"
EOF2
chmod +x "$work/faulty"

away() { rm -rf "$work/to" "$work/.to.tmp"; }
no_model() { # what is there is no model, or there is nothing
  run 1 inspect "$work/to"
  test "$status" != 0
}
kept() { grep -q 'shards were there from an earlier try' "$work/out"; }

# sweep RANKS FROM ARGS...: $target is the folder in which the conversion writes.
sweep() {
  local ranks=$1 at calls tried=0 went_on=0
  shift
  away
  rm -f "$work/calls"
  faulty "$ranks" 0 0 "$1" "$work/to" "${@:2}"
  check "$1: undisturbed" test "$status" = 0
  rm -rf "$work/whole" && mv "$work/to" "$work/whole"
  calls=$(cat "$work/calls")
  for ((at = 1 + stride / 3; at <= calls; at += stride)); do
    away
    faulty "$ranks" 4 "$at" "$1" "$work/to" "${@:2}"
    [ "$status" != 0 ] || echo "call $at of $calls: the conversion came to its end"
    if [ -e "$target" ] && ! diff -r "$work/to" "$work/whole" >/dev/null 2>&1; then
      check "$1, killed at call $at of $calls: is no model" no_model
      run "$ranks" convert "$1" "$work/to" "${@:2}"
      check "$1, killed at call $at of $calls: goes on" test "$status" = 0
      if kept; then went_on=$((went_on + 1)); fi
    fi
    [ -e "$work/to" ] || run "$ranks" convert "$1" "$work/to" "${@:2}"
    check "$1, killed at call $at: the same bytes" diff -r "$work/to" "$work/whole"
    tried=$((tried + 1))
  done
  check "$1: calls were tried" test "$tried" -ge 3
  check "$1: shards were kept" test "$went_on" -ge 1
}

# late FROM ARGS...: killed when some shards are finished.
late() {
  away
  faulty 1 4 $((calls_of_late * 2 / 3)) "$1" "$work/to" "${@:2}"
  check "$1: some shards are finished" sh -c "ls $target/*.done"
}
beyond() { # what another try does with what is not its own
  local shard
  shard=$(find "$target" -name '*.done' | sort | head -n 1)
  printf 'x' | dd of="${shard%.done}" bs=1 seek=900 conv=notrunc status=none
  run 1 convert "$1" "$work/to" "${@:2}"
  check "$1: a shard that was altered is made again" grep -q 'is made again' "$work/out"
  check "$1: and nothing of it stays" diff -r "$work/to" "$work/whole"
  late "$@"
  shard=$(find "$target" -name '*.done' | sort | head -n 1)
  printf 'x' | dd of="$shard" bs=1 seek=40 conv=notrunc status=none
  run 1 convert "$1" "$work/to" "${@:2}"
  check "$1: so is one whose record was" diff -r "$work/to" "$work/whole"
  late "$@"
  run 1 convert "$1" "$work/to" "${@:2}" --dtype bf16
  check "$1: another type begins anew" not kept
  check "$1: and comes to its end" test "$status" = 0
  away
  faulty 1 1 $((calls_of_late * 2 / 3)) "$1" "$work/to" "${@:2}"
  check "$1: a full disk" expect "$status" 'No space left'
  check "$1: is no success" test "$status" -ge 73
  check "$1: nothing stays of it" test ! -e "$target" -a ! -e "$work/to" -a ! -e "$work/.to.lock"
  late "$@"
  faulty 1 0 0 "$1" "$work/to" "${@:2}"  # how many calls another try makes
  late "$@"
  shards=$(ls "$target"/*.done)
  faulty 1 1 $(($(cat "$work/calls") * 2 / 3)) "$1" "$work/to" "${@:2}"
  check "$1: a full disk at another try" expect "$status" 'of an earlier try stay for another one'
  check "$1: is no success" test "$status" -ge 73
  check "$1: what was finished before stays" ls $shards
  run 1 convert "$1" "$work/to" "${@:2}"
  check "$1: and a third one keeps it" kept
  check "$1: and ends with the same bytes" diff -r "$work/to" "$work/whole"
}
not() { ! "$@"; }

target="$work/to/.step-00000000.tmp"
sweep 1 qwen3 --shard-bytes 4000
calls_of_late=$(cat "$work/calls")
late qwen3 --shard-bytes 4000
beyond qwen3 --shard-bytes 4000
sweep 2 qwen3 --shard-bytes 4000
away
run 1 convert qwen3 "$work/ck" --shard-bytes 4000
check "one rank writes what two do" diff -r "$work/ck" "$work/whole"
target="$work/.to.tmp"
sweep 1 "$work/ck" --shard-bytes 4000
calls_of_late=$(cat "$work/calls")
late "$work/ck" --shard-bytes 4000
beyond "$work/ck" --shard-bytes 4000
sweep 2 "$work/ck" --shard-bytes 4000

# A second start while the first is at work, of which a shard is half written.
away
mkdir "$work/.to.tmp"
echo half >"$work/.to.tmp/model-00001-of-00009.safetensors"
exec 9>"$work/.to.lock"
flock 9
run 2 convert "$work/ck" "$work/to" --shard-bytes 4000
check "a second start" expect 73 'is held by'
check "leaves the first one's shard" grep -q half "$work/.to.tmp/model-00001-of-00009.safetensors"
check "and makes nothing" test ! -e "$work/to" -a "$(ls -A "$work/.to.tmp" | wc -l)" = 1
exec 9>&-
run 1 convert "$work/ck" "$work/to" --shard-bytes 4000
check "without the first it comes to its end" diff -r "$work/to" "$work/whole"
check "and leaves no lock" test ! -e "$work/.to.lock"
finish
