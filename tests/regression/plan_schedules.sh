#!/bin/bash
# Plans of Llama 3.1 405B on 16,128 ranks, by every schedule, in 1 GB of data.
# SPDX-License-Identifier: Apache-2.0
# TRIREME_PLAN_DATA: KiB of data that a plan may have, instead of 1,000,000. OpenBLAS takes
# 131,072 of them at its start, and without them tries for ever.
source "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
data=${TRIREME_PLAN_DATA:-1000000}
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1  # each thread takes memory for itself

# plan SCHEDULE PIPELINE VIRTUAL MICROBATCHES
plan() {
  run 1 plan inputs/models/llama-3.1-405b.toml --ranks 16128 parallel.tensor=8 \
    parallel.pipeline="$2" parallel.schedule="$1" parallel.virtual_stages="$3" \
    batch.global=$(($4 * 16128 / 8 / $2))
}

# planned SCHEDULE PIPELINE VIRTUAL MICROBATCHES LOST: a plan by the schedule, which has a row
# for each rank of the pipeline. By the closed form of docs/parallelism.md each rank loses LOST
# units of time beside the three that each microbatch takes on each of its stages.
planned() {
  local name="$1 on $2 x $3 stages" pipeline=$2 microbatches=$4
  (ulimit -d "$data"; plan "$@"; exit "$status")
  status=$?
  check "$name: planned" test "$status" = 0
  check "$name: its microbatches" grep -q \
    "$microbatches microbatches of 1 on each data rank" "$work/out"
  grep -oE '^  +[0-9]+ .* [0-9.]+ %  +[0-9]+$' "$work/out" | grep -oE '[0-9.]+ %' >"$work/idle"
  check "$name: a row for each rank" test "$(wc -l <"$work/idle")" = "$pipeline"
  check "$name: the idle share of each" awk -v lost="$5" -v work="$((3 * microbatches * $3))" '
    BEGIN { share = sprintf("%.1f", 100 * lost / (lost + work)) }
    $1 != share { print "rank " NR - 1 " idles " $1 " %, expected " share; bad = 1 }
    END { exit bad || NR == 0 }' "$work/idle"
}

for schedule in gpipe 1f1b; do planned $schedule 126 1 1024 $((3 * 125)); done
planned zb_h1 126 1 1024 125
# Two stages to a rank, of a block each. Interleaved has a closed form where the ranks of the
# pipeline divide the microbatches.
planned interleaved 63 2 1008 $((3 * 62))
planned zb_v 63 2 1024 62
planned dualpipe_v 63 2 1024 62

# With too little memory for a plan, and for the thread that watches how the job ends.
(ulimit -d 200000; plan gpipe 126 1 1024; exit "$status")
status=$?
check "too little memory is an error" expect 78 "out of memory"
finish
