#!/usr/bin/env bash
# Faults on a rank in the middle of a mesh end the job in seconds.
# SPDX-License-Identifier: Apache-2.0
# It may stand in a pipeline, a ring, an exchange of experts or a shard group. There is
# one message and the right status, and no rank stays.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
base="run.steps=4 precision.compute=fp32 model.layers=3 comm.timeout_seconds=2"

# At most so many seconds since the last run began.
within() { [ $((SECONDS - started)) -le "$1" ] || { echo "$((SECONDS - started)) s"; return 1; }; }

# A killed rank says nothing, and the launcher (or a rank that misses it) ends the job: at
# most one message of ours.
died() {
  [ "$status" != 0 ] && [ "$status" != 124 ] || { echo "status $status"; return 1; }
  local count
  count=$(grep -c 'trireme: error:' "$work/out")
  [ "$count" -le 1 ] || { echo "$count error messages"; return 1; }
}

# faulty NAME RANKS RANK WORDS: each kind of fault at step 2 on that rank.
faulty() {
  local name=$1 ranks=$2 rank=$3 kind
  shift 3
  for kind in throw hang kill exit; do
    started=$SECONDS
    rm -rf "$work/run"
    run "$ranks" train $deck run.directory="$work/run" $base "$@" debug.fault=$kind@2@$rank
    case $kind in
      throw) check "$name: throw" expect 70 "rank $rank: injected fault" ;;
      hang) check "$name: hang" expect 82 "rank $rank" ;;
      *) check "$name: $kind" died ;;
    esac
    check "$name: $kind ends soon" within 20
    check "$name: $kind leaves no rank" gone "$work/run"
    check "$name: $kind came at step 2" test "$(grep -c '"kind": "step"' "$work/run/metrics.jsonl")" = 1
  done
}

faulty pipeline 3 1 parallel.pipeline=3
faulty ring 3 1 model.sequence=30 parallel.context=3
faulty experts 4 2 model.architecture=mixtral model.moe.experts=4 model.feed_forward=24 \
  parallel.expert=2 batch.global=8
faulty shards 4 2 parallel.sharding_strategy=FULL_SHARD
finish
