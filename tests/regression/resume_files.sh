#!/usr/bin/env bash
# A rank that resumes opens as many files on few ranks as on many.
# SPDX-License-Identifier: Apache-2.0
# At most ten beside those that hold the rank's data. TRIREME_FILE_CALLS notes the calls;
# TRIREME_MANY_RANKS is the greater number of ranks.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
many=${TRIREME_MANY_RANKS:-8}
common=(tests/regression/tiny.toml precision.compute=fp32 model.layers=1
  batch.global=64 model.sequence=8 checkpoint.every=2 optimizer.schedule.warmup=0 parallel.sharding_strategy=FULL_SHARD)

# calls_of RANKS: the most calls of any rank while its state was loaded.
calls_of() {
  local ranks=$1 most=0 calls file
  run "$ranks" train "${common[@]}" run.steps=2 run.directory="$work/run-$ranks"
  check "$ranks ranks train" test "$status" = 0
  TRIREME_CALLS_BELOW=$work/run-$ranks/checkpoints/ TRIREME_CALLS_TO=$work/calls-$ranks \
    LD_PRELOAD=$TRIREME_FILE_CALLS \
    run "$ranks" train "${common[@]}" run.steps=2 run.directory="$work/run-$ranks"
  check "$ranks ranks resume" test "$status" = 0
  check "$ranks ranks resume at step 2" grep -q '(step 2,' "$work/out"
  check "$ranks ranks have opened files" test "$(ls "$work/calls-$ranks".* | wc -l)" = "$ranks"
  for file in "$work/calls-$ranks".*; do
    calls=$(wc -l <"$file")
    if [ "$calls" -gt "$most" ]; then most=$calls && cp "$file" "$work/most"; fi
  done
  # With FULL_SHARD on the same mesh one shard holds what a rank needs.
  check "$ranks ranks: $most calls of a rank" at_most "$most" 11
  echo "$ranks ranks: at most $most calls of a rank"
  printf '%s' "$most" >"$work/count-$ranks"
}
at_most() { [ "$1" -le "$2" ] || { cat "$work/most"; return 1; }; }

calls_of 2
calls_of "$many"
check "as many on 2 ranks as on $many" cmp "$work/count-2" "$work/count-$many"
finish
