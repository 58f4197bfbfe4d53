#!/usr/bin/env bash
# Faults: each ends with its one message and its status on every rank, in seconds.
# SPDX-License-Identifier: Apache-2.0
# No earlier checkpoint is harmed.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
base="run.steps=4 precision.compute=fp32 checkpoint.every=2"

run 2 train $deck run.directory="$work/run" $base
check "a good run" test "$status" = 0
good() { "$TRIREME" inspect "$work/run/checkpoints/step-00000002" --tensors >/dev/null; }

run 2 train $deck run.directory="$work/run" $base run.steps=9 debug.fault=throw@6@1
check "an exception on one rank" expect 70 "rank 1: injected fault"
run 2 train $deck run.directory="$work/run" $base run.steps=9 debug.fault=kill@6@0
check "a killed rank ends the job" test "$status" != 0
run 2 train $deck run.directory="$work/run" $base run.steps=9 debug.fault=hang@6@1 \
  comm.timeout_seconds=2
check "a late rank is found" expect 82 "rank 1"
run 2 train $deck run.directory="$work/run" $base run.steps=9 debug.fault=hang@6@1 \
  health.watchdog_seconds=2
check "the watchdog finds a stuck rank" expect 82 "rank 1"
run 2 train $deck run.directory="$work/run" $base run.steps=9 debug.fault=hang_disk@6@1 \
  comm.timeout_seconds=1
check "a disk that hangs ends a save in ten times the limit" expect 82 "the disk of rank 1"
run 2 train $deck run.directory="$work/run" $base run.steps=9 debug.fault=nan@6@0
check "not a number ends the run" expect 80 "step 6"
check "the earlier checkpoint is whole" good

run 2 train $deck run.directory=/proc/none $base
check "a directory that cannot be made" expect 73 /proc/none
echo text >"$work/file"
run 2 train $deck run.directory="$work/file/run" $base
check "a directory below a file" expect 73 "$work/file"
run 2 train $deck run.directory="$work/run" $base checkpoint.resume=never
check "never resume over a run" expect 73 checkpoint.resume
run 2 train $deck run.directory="$work/new" $base checkpoint.resume="$work/nowhere"
check "a checkpoint that is not there" expect 66 nowhere
run 2 train $deck run.directory="$work/new" $base 'data.paths=["no-such-file"]'
check "missing data" expect 66 no-such-file
: >"$work/empty"
run 2 train $deck run.directory="$work/new" $base "data.paths=[\"$work/empty\"]"
check "empty data" expect 65 empty
run 2 train "$work/no-deck.toml"
check "a missing deck" expect 66 no-deck
run 2 train $deck run.directory="$work/run" $base run.steps=9 model.hidden=64
check "another model than the checkpoint's" expect 65 "shape"
run 2 wrong
check "an unknown command" expect 64 wrong
run 1 generate "$work/run" --tokens 5
check "no prompt" expect 64 prompt

# passed_over STATUS NAME: the run went on from the checkpoint before, and said why.
passed_over() {
  [ "$status" = 0 ] || { echo "status $status"; return 1; }
  grep -q "warning.*$1.*going back to the checkpoint before it" "$work/out" &&
    grep -q '(step 2,' "$work/out"
}

# Damage to a copy of the newest checkpoint, byte by byte: the run goes on from the one
# before, but a checkpoint that was named is never replaced by another.
latest="$work/run/checkpoints/step-00000004"
for file in "$latest"/*; do
  name=$(basename "$file")
  case $name in checkpoint.h5*) continue ;; esac # views.sh has these
  cp "$file" "$work/saved"
  size=$(stat -c %s "$file")
  printf '\377' | dd of="$file" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
  printf '\000' | dd of="$file" bs=1 seek=$((size / 3)) conv=notrunc 2>/dev/null
  if ! cmp -s "$file" "$work/saved"; then
    run 2 train $deck run.directory="$work/new" $base checkpoint.resume="$latest"
    check "flipped bytes in $name" expect 65 "$name"
    run 2 inspect "$latest" --verify
    check "flipped bytes in $name, found by inspect" expect 65 "$name"
    run 2 train $deck run.directory="$work/run" $base
    check "flipped bytes in $name, passed over" passed_over "$name"
  fi
  cp "$work/saved" "$file"
  head -c $((size - 1)) "$work/saved" >"$file"
  run 2 train $deck run.directory="$work/new" $base checkpoint.resume="$work/run"
  check "$name cut short" expect 65 "$name"
  rm "$file"
  run 2 train $deck run.directory="$work/run" $base
  check "$name missing, passed over" passed_over "$name"
  run 2 inspect "$latest" --verify
  check "and written anew" test "$status" = 0
done
cp -r "$work/run" "$work/none"
for file in "$work"/none/checkpoints/step-*/shard-00001.h5; do
  printf 'x' >>"$file"
done
run 2 train $deck run.directory="$work/none" $base
check "none whole" expect 65 "no checkpoint of"
check "the earlier checkpoint is still whole" good
run 2 train $deck run.directory="$work/run" $base run.steps=6
check "and the run goes on" test "$status" = 0

# Two jobs in one directory: the second refuses; a killed one's lock is gone.
"$TRIREME" train $deck run.directory="$work/lock" $base run.steps=100000 checkpoint.every=0 \
  optimizer.schedule.name=constant >"$work/first" 2>&1 &
first=$!
for _ in $(seq 300); do
  [ -s "$work/lock/metrics.jsonl" ] && break
  sleep 0.1
done
run 1 train $deck run.directory="$work/lock" $base
check "a second job on one directory" expect 73 "is held by process $first on"
kill -KILL $first
wait $first 2>/dev/null
run 1 train $deck run.directory="$work/lock" $base
check "a killed one's lock is gone" test "$status" = 0
check "and leaves no lock" test ! -e "$work/lock/lock"

# A full disk, where a small one can be mounted.
mkdir "$work/disk"
if mount -t tmpfs -o size=1300k tmpfs "$work/disk" 2>/dev/null; then
  run 2 train $deck run.directory="$work/disk/run" $base run.steps=12 checkpoint.keep=0
  check "a full disk" expect 74 disk
  run 1 inspect "$work/disk/run" --verify
  check "leaves the last whole checkpoint" test "$status" = 0
  umount "$work/disk"
else
  echo "no right to mount a small disk: the full-disk case is left to checkpoint_test"
fi
finish
