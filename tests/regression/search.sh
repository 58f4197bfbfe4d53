#!/bin/bash
# The search for the fastest deck: what it prints and writes, and what it refuses.
# SPDX-License-Identifier: Apache-2.0
source "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
h100=inputs/machines/h100-sxm.toml

ended_well() { [ "$status" = 0 ]; }
out_has() { grep -q -- "$1" "$work/out"; }

run 1 plan $deck --ranks 4 --machine $h100 --search --fix recompute.policy=none -o "$work/best.toml"
check "searched" ended_well
check "a table" grep -qE '^ +1 +[0-9]' "$work/out"
check "why" out_has "instead of"
grep -v '^wrote' "$work/out" >"$work/first"
cp "$work/best.toml" "$work/first.toml"
cp "$work/best.svg" "$work/first.svg"
run 1 plan $deck --ranks 4 --machine $h100 --search --fix recompute.policy=none -o "$work/best.toml"
grep -v '^wrote' "$work/out" >"$work/second"
check "the same again" cmp "$work/first" "$work/second"
check "the same deck" cmp "$work/best.toml" "$work/first.toml"
check "the same picture" cmp "$work/best.svg" "$work/first.svg"
check "the picture has both colours" grep -q 'prefers-color-scheme: dark' "$work/best.svg"

# A deck that includes all it has gives the same.
printf 'include = "%s/%s"\n' "$PWD" $deck >"$work/includes.toml"
run 1 plan "$work/includes.toml" --ranks 4 --machine $h100 --search --fix recompute.policy=none \
  -o "$work/best.toml"
check "a deck that includes it: the same deck" cmp "$work/best.toml" "$work/first.toml"

# The winner is a deck that fits, and takes the time that was said.
said=$(grep '^step ' "$work/first")
run 1 train "$work/best.toml" --check --ranks 4
check "the winner is checked" ended_well
run 1 plan "$work/best.toml" --ranks 4 --machine $h100
check "the winner's time" grep -qF "$said" "$work/out"

# What is fixed stays, what is given is tried.
run 1 plan $deck --ranks 4 --machine $h100 --search --top 2 parallel.tensor=2 \
  --grid precision.compute=fp64,fp32 -o "$work/fixed.toml" --plot "$work/other.svg"
check "with fixed keys" ended_well
check "the key stays" grep -q '^tensor = 2' "$work/fixed.toml"
check "the faster type" grep -q '^compute = "fp32"' "$work/fixed.toml"
check "the picture's name" test -s "$work/other.svg" -a ! -e "$work/fixed.svg"

# Types change what is computed: only who allows that gets others than the deck's.
check "the deck's type" grep -q '^compute = "fp64"' "$work/best.toml"
run 1 plan $deck --ranks 2 --machine $h100 --search --allow precision --fix recompute.policy=none \
  --fix parallel.tensor=1 --fix parallel.context=1 --fix parallel.pipeline=1 -o "$work/types.toml"
check "other types are allowed" ended_well
check "a column of types" out_has 'precision.compute  precision.moments'
check "a faster type" grep -qE '^compute = "(bf16|fp8)"' "$work/types.toml"
check "why a type" out_has 'precision.compute = fp64 instead of'
run 1 plan $deck --ranks 2 --machine $h100 --search --allow precision precision.compute=fp32 \
  --fix recompute.policy=none --fix parallel.tensor=1 -o "$work/types.toml"
check "a type of the command line stands" grep -q '^compute = "fp32"' "$work/types.toml"
run 1 plan $deck --ranks 2 --machine $h100 --search --allow types
check "nothing else is allowed" expect 64 "one thing, precision"

# Where the results cannot go is said before the search, and no deck is lost.
cp $deck "$work/own.toml"
for place in "-o $work/nowhere/x.toml" "-o $work" "-o $work/./own.toml" "--plot $work/nowhere/x.svg"; do
  run 1 plan "$work/own.toml" --ranks 4 --machine $h100 --search $place
  check "$place" expect 73 "write another name"
  check "before the search: $place" test "$(wc -l <"$work/out")" = 1
done
check "the deck is as it was" cmp $deck "$work/own.toml"
run 1 plan $deck --ranks 4 --machine $h100 --search -o "$work/x.svg"
check "one name for both" expect 64 "ends in .toml"
run 1 plan $deck --ranks 4 --machine "$work/none.toml" --search
check "no machine file" expect 66 "no such machine file"

# The best are run, and the fastest of them is taken.
run 2 plan $deck --machine inputs/machines/host-2-cores.toml --search --top 3 --measure 2 \
  precision.compute=fp32 --fix recompute.policy=none -o "$work/measured.toml"
check "measured" ended_well
check "a table of both" grep -qE '^measured +the best 2, 5 steps each' "$work/out"
check "how far each was off" test "$(grep -cE '^ *[12] +[12] .*-?[0-9.]+ %$' "$work/out")" = 2
run 1 train "$work/measured.toml" --check --ranks 2
check "a deck" ended_well
run 1 plan $deck --ranks 4 --machine $h100 --search --measure 2
check "ranks that were not started" expect 64 "start 4 of them"
run 2 plan $deck --machine $h100 --search --measure 1
check "another machine" expect 78 "compute on CPUs"

# Wrong words, and what cannot be found.
run 1 plan $deck --ranks 4 --search
check "no machine" expect 64 "add --machine"
run 1 plan $deck --ranks 4 --machine $h100 --top 3
check "an option without --search" expect 64 "belongs to --search"
run 1 plan $deck --ranks 4 --machine $h100 --search --fix parallel.tensr
check "no such key" expect 64 "no such key"
run 1 plan $deck --ranks 5 --machine $h100 --search --fix parallel.tensor=2
check "ranks that no deck takes" test "$status" = 78 -o "$status" = 65
run 1 plan inputs/models/llama-3.1-70b.toml --ranks 8 --machine $h100 --search batch.global=8 \
  parallel.sharding_strategy=NO_SHARD batch.micro=1 parallel.offload=none
check "nothing fits" expect 78 "the least that one needs"
finish
