#!/bin/bash
# Plans that tell time by a machine file, machine files, and decks that do not fit.
# SPDX-License-Identifier: Apache-2.0
source "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
h100=inputs/machines/h100-sxm.toml

ended_well() { [ "$status" = 0 ]; }
out_has() { grep -q -- "$1" "$work/out"; }

# The same text each time, with a pipeline too.
for mesh in parallel.tensor=2 parallel.pipeline=2; do
  run 1 plan $deck --ranks 4 --machine $h100 $mesh
  check "$mesh: planned" ended_well
  check "$mesh: a step's time" grep -qE '^step +[0-9].* tokens/s' "$work/out"
  check "$mesh: goodput" out_has "goodput"
  cp "$work/out" "$work/first"
  run 1 plan $deck --ranks 4 --machine $h100 $mesh
  check "$mesh: the same again" cmp "$work/out" "$work/first"
done

# What is measured here is a machine file.
run 2 bench --machine "$work/here.toml" --quick
check "measured" ended_well
run 1 plan $deck --machine "$work/here.toml"
check "planned by what was measured" ended_well
check "nothing is left beside it" test "$(ls "$work"/here.toml*)" = "$work/here.toml"

# A run compares itself with its prediction.
run 2 train $deck run.directory="$work/compared" --machine "$work/here.toml"
check "a run with a prediction" ended_well
check "its end says how far it was off" grep -qE \
  'predicted a step of .*; the median of 18 was .*: -?[0-9.]+ % off' "$work/out"
run 2 train $deck --check --machine "$work/here.toml"
check "no comparison without a run" expect 64 "trireme plan DECK --machine"

# Wrong files and words.
run 1 plan $deck --machine "$work/none.toml"
check "no file" expect 66 "none.toml"
sed 's/^sweeps/sweep/' $h100 >"$work/wrong.toml"
run 1 plan $deck --machine "$work/wrong.toml"
check "an unknown key" test "$status" = 65
check "its nearest" out_has "memory.sweeps"
sed 's/^fp64.*/fp64 = 0.0/' $h100 >"$work/lacks.toml"
run 1 plan $deck --machine "$work/lacks.toml"
check "no rate for the deck's type" expect 78 "no rate of products in fp64"
run 1 bench $deck --machine "$work/x.toml"
check "a deck beside --machine" expect 64 "leave the deck out"
run 1 bench --machine "$work/none/x.toml" --quick
check "no folder for the file" test "$status" = 73

# Too little memory: here by what Slurm gave the job.
export SLURM_MEM_PER_NODE=1
for way in "--check" "run.directory=$work/run"; do
  run 2 train $deck data.source=bytes $way
  check "$way: refused" expect 78 "does not fit"
  check "$way: by whom" out_has "SLURM_MEM_PER_NODE of 1.00 MiB, for 2 ranks"
  check "$way: a way out" grep -qE '^  [a-z]+\.[a-z_]+=[A-Za-z0-9_]+: .* less' "$work/out"
done
check "nothing was written" test ! -e "$work/run"
export SLURM_MEM_PER_NODE=10000
run 2 train $deck --check
check "enough memory" ended_well
unset SLURM_MEM_PER_NODE
sed 's/^memory .*/memory = 0.1/' $h100 >"$work/small.toml"
run 1 plan $deck --machine "$work/small.toml" model.hidden=1024 model.feed_forward=4096
check "a machine file's memory" expect 78 "the machine file of"
finish
