#!/usr/bin/env bash
# Sharded weights on a disk: bits of a run without offloading, resuming, and faults.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
head -c $((32 * 24)) LICENSE >"$work/text"
base="tests/regression/tiny.toml model.layers=3 batch.global=8 precision.compute=bf16
  checkpoint.every=2 checkpoint.keep=0 metrics.validate_every=2 optimizer.schedule.name=constant optimizer.schedule.warmup=0
  data.paths=[\"$work/text\"] data.validation_paths=[\"$work/text\"]"
mkdir "$work/disk"
disk="parallel.offload=disk_weights parallel.offload_directory=$work/disk"

# same RANKS NAME WORDS -- WORDS: 3 steps without offloading, and with it, the second words
# being those of the latter alone.
same() {
  local ranks=$1 name=$2
  shift 2
  local shared=()
  while [ "$1" != -- ]; do
    shared+=("$1")
    shift
  done
  shift
  run "$ranks" train $base run.steps=3 run.directory="$work/$name.home" "${shared[@]}"
  check "$name: at home" test "$status" = 0
  run "$ranks" train $base run.steps=3 run.directory="$work/$name" "${shared[@]}" $disk "$@"
  check "$name: on the disk" test "$status" = 0
  check "$name: the same bits" identical "$name" "$name.home"
  field "$work/$name.home/metrics.jsonl" validation_loss >"$work/a"
  field "$work/$name/metrics.jsonl" validation_loss >"$work/b"
  check "$name: the same validation" cmp "$work/a" "$work/b"
  check "$name: there is a validation" test -s "$work/a"
}

same 1 one parallel.sharding_strategy=FULL_SHARD --
check "says where, and how" \
  grep -qE "of the weights and the optimizer's state of rank 0 on the disk, $work/disk: (by direct|through)" "$work/out"
check "its bytes" grep -qE '"offload_bytes_from_disk": [1-9]' "$work/one/metrics.jsonl"
same 2 two parallel.sharding_strategy=FULL_SHARD recompute.policy=full precision.compute=fp32 \
  health.check_replicas_every=1 -- parallel.offload_fraction=0.5
same 4 four parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=2 parallel.pipeline=2 \
  parallel.schedule=interleaved parallel.virtual_stages=2 model.layers=4 parallel.prefetch=2 --
run 2 plan $base parallel.sharding_strategy=FULL_SHARD $disk
check "planned" grep -qE "^disk +[0-9.]+ KiB of the weights and the optimizer's state" "$work/out"

# A run that stops goes on with or without; so does one on another mesh.
full="parallel.sharding_strategy=FULL_SHARD"
run 2 train $base $full run.steps=4 run.directory="$work/whole"
run 2 train $base $full run.steps=2 run.directory="$work/parts" $disk checkpoint.async=true
check "the first half" test "$status" = 0
cp -r "$work/parts" "$work/half"
run 2 train $base $full run.steps=4 run.directory="$work/parts" $disk
check "resumed" grep -q '(step 2,' "$work/out"
check "resumed to the bit" identical parts whole
run 2 train $base $full run.steps=4 run.directory="$work/half"
check "without the disk, to the bit" identical half whole
run 1 train $base $full run.steps=5 run.directory="$work/parts" $disk
check "on another mesh" test "$status" = 0
check "nothing is left" test -z "$(ls -A "$work/disk")"

# Room that cannot be taken: before the first step. The limit leaves MPI's own files alone.
large="model.hidden=512 model.feed_forward=4096"
ulimit -S -f $((100 * 1024))
run 1 train $base $full run.steps=1 run.directory="$work/small" $large $disk
ulimit -S -f unlimited
check "too little room" expect 78 "$work/disk: the weights and the optimizer's state of rank 0 needs"
check "no step was done" test ! -s "$work/small/metrics.jsonl"

# A disk that fails one rank: one message, and the end of both.
if [ -n "${TRIREME_IO_FAULTS:-}" ]; then
  printf '#!/bin/sh\nLD_PRELOAD="%s" exec "%s" "$@"\n' "$TRIREME_IO_FAULTS" "$TRIREME" >"$work/faulty"
  chmod +x "$work/faulty"
  # broken NAME KIND AT SAYS: kind 6 is of reads alone, 2 of what changes files.
  broken() {
    local clean=$TRIREME
    TRIREME=$work/faulty
    export IO_FAULTS="$work/disk:$2:$3:5" IO_FAULTS_RANK=1
    run 2 train $base $full run.steps=4 run.directory="$work/$1" $disk checkpoint.every=0
    unset IO_FAULTS IO_FAULTS_RANK
    TRIREME=$clean
    check "$1" expect 74 "$work/disk/trireme-optimizer-state-[0-9]*-1: at byte [0-9]*: cannot be $4"
    check "$1: nothing is left" test -z "$(ls -A "$work/disk")"
  }
  # The first read looks for direct I/O.
  broken "a weight that cannot be read" 6 2 read
  broken "a weight that cannot be read later" 6 40 read
  broken "a window that cannot be written" 2 8 written
else
  echo "TRIREME_IO_FAULTS names no library: a broken disk is not tried"
fi
finish
