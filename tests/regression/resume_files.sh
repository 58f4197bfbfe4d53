#!/usr/bin/env bash
# A rank that resumes opens as many files on few ranks as on many.
# SPDX-License-Identifier: Apache-2.0
# At most ten calls beside one for each file that holds the rank's data, as strace counts
# them (opens and stats). TRIREME_FILE_CALLS notes the calls; TRIREME_MANY_RANKS is the
# greater number of ranks.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
many=${TRIREME_MANY_RANKS:-8}
common=(tests/regression/tiny.toml precision.compute=fp32 model.layers=1
  batch.global=64 model.sequence=8 checkpoint.every=2 optimizer.schedule.warmup=0)
sharded=(parallel.sharding_strategy=FULL_SHARD)

# noted NAME FOLDER RANKS ARGUMENTS...: trains, and leaves the calls below the folder in
# calls-NAME.*, a file a rank that made any.
noted() {
  local name=$1 below=$2 ranks=$3
  shift 3
  rm -f "$work/calls-$name".*
  TRIREME_CALLS_BELOW=$below TRIREME_CALLS_TO=$work/calls-$name \
    LD_PRELOAD=$TRIREME_FILE_CALLS run "$ranks" train "${common[@]}" "$@"
  check "$name on $ranks ranks" test "$status" = 0
}

# most_of NAME ALLOWED: the most calls of any rank, but for those of its files.
most_of() {
  local most=0 calls file
  for file in "$work/calls-$1".*; do
    calls=$(grep -cv 'manifest\.json$\|index\.bin$\|/shard-[0-9]*\.h5$\|checkpoint\.h5$' "$file")
    if [ "$calls" -ge "$most" ]; then most=$calls && cp "$file" "$work/most"; fi
  done
  check "$1: $most calls of a rank" at_most "$most" "$2"
}
at_most() { [ "$1" -le "$2" ] || { cat "$work/most"; return 1; }; }

# resumes NAME ALLOWED RANKS HOW ARGUMENTS...
resumes() {
  local name=$1 allowed=$2 ranks=$3 how=$4 own=$work/run-$1 file
  shift 4
  run "$ranks" train "${common[@]}" run.steps=2 run.directory="$own" "$@"
  check "$name: $ranks ranks train" test "$status" = 0
  [ "$how" = auto ] || how=$own$how
  noted "$name" "$own/checkpoints" "$ranks" run.steps=2 run.directory="$own" \
    checkpoint.resume="$how" "$@"
  check "$name: resumed at step 2" grep -q '(step 2,' "$work/out"
  check "$name: $ranks ranks have opened files" \
    test "$(ls "$work/calls-$name".* | wc -l)" = "$ranks"
  most_of "$name" "$allowed"
  cp "$work/most" "$work/most-$name"
  # No rank reads more shards than its own and those of which it compares a part.
  for file in "$work/calls-$name".*; do
    check "$name: few shards" test "$(grep -c '/shard-[0-9]*\.h5$' "$file")" -le 4
  done
}

resumes few 7 2 auto "${sharded[@]}"
resumes many 7 "$many" auto "${sharded[@]}"
check "as many on 2 ranks as on $many" \
  test "$(wc -l <"$work/most-few")" = "$(wc -l <"$work/most-many")"
resumes by-name 7 "$many" /checkpoints/step-00000002 "${sharded[@]}"
resumes by-run 10 "$many" "" "${sharded[@]}"
resumes by-latest 10 "$many" /checkpoints/latest "${sharded[@]}"
manifests() { cat "$work/calls-$1".* | grep -c 'manifest\.json'; }
check "latest by its path is read as often as a step" test "$(manifests by-latest)" = "$(manifests by-name)"
resumes shared-files 7 "$many" auto "${sharded[@]}" checkpoint.ranks_per_file=4
resumes five-axes 7 8 auto parallel.pipeline=2 parallel.tensor=2 model.layers=2

# A start asks for as few names of its run on many ranks as on few.
for ranks in 2 "$many"; do
  own=$work/start-$ranks
  run "$ranks" train "${common[@]}" run.steps=2 run.directory="$own" "${sharded[@]}"
  noted "start-$ranks" "$own" "$ranks" run.steps=2 run.directory="$own" "${sharded[@]}"
done
most_of start-2 60
cp "$work/most" "$work/most-2"
most_of "start-$many" 60
check "a start is as on 2 ranks" \
  test "$(grep -cv shard- "$work/most-2")" = "$(grep -cv shard- "$work/most")"

# A save does not read what this run has written before: each is read once, for its views.
noted saves "$work/saves/checkpoints" 2 run.steps=6 checkpoint.every=1 checkpoint.keep=3 \
  run.directory="$work/saves" "${sharded[@]}"
check "three are kept" test "$(ls -d "$work"/saves/checkpoints/step-* | wc -l)" = 3
check "old ones are read once" \
  test "$(cat "$work"/calls-saves.* | grep 'open /step-.*manifest' | sort | uniq -c | awk '{print $1}' | uniq)" = 1
# One rank alone reads what a save finds in its place.
printf x >>"$work/saves/checkpoints/step-00000006/shard-00000.h5"
noted over "$work/saves/checkpoints" 2 run.steps=6 checkpoint.every=1 checkpoint.keep=3 \
  run.directory="$work/saves" "${sharded[@]}"
check "one rank has read manifests" \
  test "$(grep -l '/step-.*manifest' "$work"/calls-over.* | wc -l)" = 1

# Nor does more than one read the index of the checkpoint that a run starts from.
noted from "$work/saves/checkpoints" 2 run.steps=1 run.directory="$work/from" model.from="$work/saves" \
  "${sharded[@]}"
check "one rank has read the start" test "$(grep -l 'index\.bin' "$work"/calls-from.* | wc -l)" = 1
finish
