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
check "its libraries" grep -q '^  "HDF5: [0-9]' "$one/status.toml"
check "its hosts" grep -qF "  \"$(hostname)\"]" "$one/status.toml"
check "the lock is gone" test ! -e "$one/lock"
events() { ls "$one" | grep '^events.out.tfevents'; }
first=$(events)
check "an event file" test "$(echo "$first" | wc -l)" = 1
run 2 train $deck $more run.steps=4
check "resumed" test "$status" = 0
check "a second event file" test "$(events | wc -l)" = 2
check "which sorts behind" test "$(events | head -1)" = "$first"
for tag in train/loss train/grad_norm speed/tokens_per_second memory/memory_peak_bytes; do
  check "$tag" grep -q "$tag" "$one/$first"
done
check "both starts are kept" test "$(grep -c '^\[\[starts\]\]' "$one/status.toml")" = 2

run 1 report "$one" --output "$one/metrics.h5"
check "metrics in HDF5" test "$status" = 0
check "says so" grep -q 'wrote .*metrics.h5: the metrics of 1 run in HDF5' "$work/out"
run 1 report "$one" --output "$one/metrics.h5"
check "again" test "$status" = 0
cp "$(find "$one/checkpoints/" -name '*.h5' | head -1)" "$work/other.h5"
run 1 report "$one" --output "$work/other.h5"
check "not in the place of another file" expect 73 'is an HDF5 file of something else'
run 1 report "$one" --output "$work/x.h5" --markdown
check "no page" expect 64 'names an HDF5 file'
run 1 report "$one"
check "report" test "$status" = 0
check "is one page" grep -q '</html>' "$one/report.html"
check "that reads no other file" bash -c "! grep -qE '(src|href)=' '$one/report.html'"
check "and holds the losses" grep -q '"title":"Loss"' "$one/report.html"
check "with its restart" grep -q '"marks":\[{"x":2' "$one/report.html"
if command -v chromium >/dev/null; then
  page() {  # PAGE: what a browser makes of it
    timeout 120 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 \
      --user-data-dir="$work/browser" --dump-dom "file://$1" 2>/dev/null
  }
  page "$one/report.html" >"$work/dom"
  check "a browser draws all plots" grep -q 'data-ready="[1-9]' "$work/dom"
  check "with curves" grep -q '<path d="M' "$work/dom"
  check "and the restart" grep -q 'class="mark"' "$work/dom"
  check "and takes the pictures away" bash -c "! grep -q 'class=\"static\"' '$work/dom'"
else
  echo "no chromium: the page was not drawn"
fi

run 1 report --markdown "$one"
check "report in Markdown" test "$status" = 0
check "of every step" grep -q '| one | done | 4 of 4 |' "$one/report.md"
check "with its restart" grep -q '| 2 | 2 | process ' "$one/report.md"
for plot in loss gradient-norm learning-rate tokens-per-second memory time; do
  check "plot $plot is named" grep -q "report-$plot.svg" "$one/report.md"
  check "plot $plot is there" grep -q '</svg>' "$one/report-$plot.svg"
  check "plot $plot shows the restart" grep -q 'class="mark"' "$one/report-$plot.svg"
done

# Damaged, empty and absent metrics.
mkdir "$work/no_run"
run 1 report "$work/no_run"
check "a folder that is no run" expect 66 "holds no metrics.jsonl, so it is no run"
check "stays as it is" test -z "$(ls "$work/no_run")"
mkdir "$work/empty" "$work/damaged"
printf '{"step": 1, "loss": 2}\n{"step": 2, "lo\0\377\n[[[\n' >"$work/damaged/metrics.jsonl"
echo 'state = [' >"$work/damaged/status.toml"
run 1 report "$one" "$work/damaged" "$work/empty/" --output "$work/pages/all.md"
check "report of three" test "$status" = 0
check "which is said at once" test "$(grep -c '^warning: .*metrics.jsonl' "$work/out")" = 2
check "names the damage" grep -q '2 lines of metrics.jsonl are damaged' "$work/pages/all.md"
check "and what is empty" grep -q 'empty: metrics.jsonl has no step' "$work/pages/all.md"
check "plots beside the page" grep -q 'no data' "$work/pages/all-time-2.svg"
run 1 report "$work/none"
check "no such run" expect 66 'no such run'
: >"$work/file"
run 1 report "$one" --output "$work/file/page.md"
check "no place for the page" expect 73 "$work/file"

# Where a GPU carried messages nobody knows how long rank 0 waited, and no plot says so.
# Energy is that of GPUs, of a run without any that of its nodes.
step='"kind": "step", "step": 1, "step_seconds": 1, "tokens_per_second": 1000'
parts='"compute_seconds": 0.5, "communication_seconds": 0.25'
mkdir "$work/gpus" "$work/hosts"
echo "{$step, $parts, \"communication\": {\"everyone\": {\"all_reduce\": {\"calls\": 1,
  \"bytes\": 8, \"exposed_seconds\": 0.125}}, \"data\": {\"all_reduce\": {\"calls\": 2, \"bytes\":
  64}}}, \"device_joules_per_token\": 2, \"node_joules_per_token\": 3}" | tr '\n' ' ' \
  >"$work/gpus/metrics.jsonl"
echo "{$step, $parts, \"exposed_seconds\": 0.375, \"communication\": {\"data\": {\"all_reduce\":
  {\"calls\": 1, \"bytes\": 8, \"exposed_seconds\": 0.375}}}, \"node_joules_per_token\": 3}" |
  tr '\n' ' ' >"$work/hosts/metrics.jsonl"
run 1 report "$work/gpus"
check "report of a run on GPUs" test "$status" = 0
check "the reductions after backward" grep -q '"name":"rest of the reductions"' "$work/gpus/report.html"
check "no waiting that is not known" bash -c \
  "! grep -q '\"name\":\"communication not hidden\"' '$work/gpus/report.html'"
check "the energy of GPUs" grep -q '<td>2.00 kJ</td>' "$work/gpus/report.html"
run 1 report "$work/hosts"
check "a run on hosts knows its waiting" grep -q '"name":"communication not hidden"' "$work/hosts/report.html"
check "the energy of its nodes" grep -q '<td>3.00 kJ</td>' "$work/hosts/report.html"

# Names are text in the page, whatever they hold.
hostile="$work/<script>alert(1)<"
mkdir "$hostile"
printf '{"step": 1, "loss": 2, "memory": {"</script><script>alert(2)//": 1}}\n' \
  >"$hostile/metrics.jsonl"
run 1 report "$hostile" "$one" --output "$work/hostile.html"
check "report of a hostile name" test "$status" = 0
check "no script but its own" test "$(grep -c '<script' "$work/hostile.html")" = 2
check "nor in the numbers" bash -c "! grep -q 'alert(2)//\"[^}]*</script><script>alert' '$work/hostile.html'"

# The points of a sweep, and which key mattered.
run 1 sweep $deck run.steps=3 optimizer.schedule.warmup=0 --ranks 1 --directory "$work/sweep" \
  --grid optimizer.learning_rate=1e-5,1e-2 --grid run.seed=1,2
for i in 0 1 2 3; do run 1 train --manifest "$work/sweep/sweep.toml" --index $i; done
check "a point" test "$status" = 0
run 1 report "$work/sweep" --output "$work/sweep.html"
check "report of a sweep" test "$status" = 0
check "of all its points" grep -q '<h1>Report: point-0000, point-0001' "$work/sweep.html"
check "which key mattered" grep -q '<td>optimizer.learning_rate</td>' "$work/sweep.html"
run 1 report "$work/sweep/sweep.toml" --output "$work/again.html"
check "or by its manifest" test "$status" = 0

# A folder in the place of one of a run's own is refused on every rank, and the status says so.
mkdir "$work/full"
: >"$work/full/tensorboard"
run 2 train $deck run.directory="$work/full" metrics.tensorboard=true run.steps=2 \
  optimizer.schedule.warmup=0
check "no place for events" expect 73 "$work/full/tensorboard"
check "is in the status" grep -q '^status = 73' "$work/full/status.toml"
finish
