#!/usr/bin/env bash
# What a run shows of itself: status, TensorBoard's files, the report.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
one=$work/one
more="run.directory=$one metrics.tensorboard=true checkpoint.every=2 optimizer.schedule.name=constant optimizer.schedule.warmup=0"

run 2 train $deck $more run.steps=2
check "training" test "$status" = 0
check "its status" grep -q '^state = "ended"' "$one/status.toml"
check "the lock is gone" test ! -e "$one/lock"
first=$(ls "$one/tensorboard")
check "an event file" test "$(echo "$first" | wc -l)" = 1
run 2 train $deck $more run.steps=4
check "resumed" test "$status" = 0
check "a second event file" test "$(ls "$one/tensorboard" | wc -l)" = 2
check "which sorts behind" test "$(ls "$one/tensorboard" | head -1)" = "$first"
for tag in train/loss train/grad_norm speed/tokens_per_second memory/memory_peak_bytes; do
  check "$tag" grep -q "$tag" "$one/tensorboard/$first"
done
check "both starts are kept" test "$(grep -c '^\[\[starts\]\]' "$one/status.toml")" = 2

run 1 report "$one"
check "report" test "$status" = 0
check "of every step" grep -q '| one | done | 4 of 4 |' "$one/report.md"
check "with its restart" grep -q '| 2 | 2 | process ' "$one/report.md"
for plot in loss gradient-norm learning-rate tokens-per-second memory time; do
  check "plot $plot is named" grep -q "report-$plot.svg" "$one/report.md"
  check "plot $plot is there" grep -q '</svg>' "$one/report-$plot.svg"
  check "plot $plot shows the restart" grep -q 'class="mark"' "$one/report-$plot.svg"
done

# Damaged, empty and absent metrics.
mkdir "$work/empty" "$work/damaged"
printf '{"step": 1, "loss": 2}\n{"step": 2, "lo\0\377\n[[[\n' >"$work/damaged/metrics.jsonl"
echo 'state = [' >"$work/damaged/status.toml"
run 1 report "$one" "$work/damaged" "$work/empty/" --output "$work/pages/all.md"
check "report of three" test "$status" = 0
check "names the damage" grep -q '2 lines of metrics.jsonl are damaged' "$work/pages/all.md"
check "and what is empty" grep -q 'empty: metrics.jsonl has no step' "$work/pages/all.md"
check "plots beside the page" grep -q 'no data' "$work/pages/all-time-2.svg"
run 1 report "$work/none"
check "no such run" expect 66 'no such run'
: >"$work/file"
run 1 report "$one" --output "$work/file/page.md"
check "no place for the page" expect 73 "$work/file"

# An event file that cannot be made ends the run on every rank, and the status says so.
mkdir "$work/full"
: >"$work/full/tensorboard"
run 2 train $deck run.directory="$work/full" metrics.tensorboard=true run.steps=2 \
  optimizer.schedule.warmup=0
check "no place for events" expect 73 "$work/full/tensorboard"
check "is in the status" grep -q '^status = 73' "$work/full/status.toml"
finish
