#!/bin/bash
# Strong scaling from one rank to two, by axis: tokens/s, efficiency, idle shares.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/scaling.sh PROGRAM [fp32] [bf16]     default: both
# Takes about ten minutes on 2 cores that do nothing else, one thread a rank. tokens/s: the median
# of the steps after the first. Efficiency: over twice the mean of the one-rank runs before and
# after the others. Idle shares of pipelines: of each rank, measured and simulated with the
# times that its actions took.
set -euo pipefail

program=$(realpath "${1:?usage: tests/bench/scaling.sh PROGRAM [fp32] [bf16]}")
deck=$(realpath "$(dirname "$0")")/scaling.toml
shift
types=("$@")
[ ${#types[@]} -eq 0 ] && types=(fp32 bf16)

folder=$(mktemp -d "${TMPDIR:-/tmp}/trireme-scaling.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_PROC_BIND=false
export OMPI_MCA_hwloc_base_binding_policy=none
if [ "$(id -u)" = 0 ]; then  # Open MPI refuses root unless told twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# tokens_per_second RANKS KEY=VALUE...
tokens_per_second() {
  local ranks=$1
  shift
  rm -rf scaling-run
  if ! mpirun -n "$ranks" "$program" train "$deck" "$@" >log 2>&1; then
    tail -n 5 log >&2
    exit 1
  fi
  sed -n 's/.*"tokens_per_second": *\([0-9.e+]*\).*/\1/p' scaling-run/metrics.jsonl |
    tail -n +2 | sort -g |
    awk '{x[NR] = $1} END {print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2}'
}

# "idle 9.9 4.9 %, simulated 9.2 4.6 %" from the last log, if it was a pipeline.
idle_shares() {
  awk '/idle share of a step/ {table = NR + 1}
       table && NR > table && $1 ~ /^[0-9]+$/ {
         match($0, / +[0-9.]+ % +[0-9.]+ %/)
         split(substr($0, RSTART, RLENGTH), share, " ")
         idle = idle " " share[1]; simulated = simulated " " share[3]
       }
       END {if (idle) printf "idle%s %%, simulated%s %%", idle, simulated}' log
}

meshes=(
  "data 2|"
  "data 2, FULL_SHARD|parallel.sharding_strategy=FULL_SHARD"
  "tensor 2|parallel.tensor=2"
  "tensor 2, sequence|parallel.tensor=2 parallel.sequence=true"
  "context 2, zig-zag|parallel.context=2"
  "pipeline 2, 1F1B|parallel.pipeline=2 parallel.schedule=1f1b"
  "pipeline 2, ZB-H1|parallel.pipeline=2 parallel.schedule=zb_h1"
)
for type in "${types[@]}"; do
  words=(precision.compute="$type")
  before=$(tokens_per_second 1 "${words[@]}")
  rows=()
  for mesh in "${meshes[@]}"; do
    # shellcheck disable=SC2086  # the overrides are several words
    rate=$(tokens_per_second 2 "${words[@]}" ${mesh#*|})
    rows+=("${mesh%%|*}|$rate|$(idle_shares)")
  done
  after=$(tokens_per_second 1 "${words[@]}")
  printf '| %s | tokens/s | efficiency | pipeline |\n| --- | --- | --- | --- |\n' "$type"
  printf '| one rank | %.0f, %.0f | | |\n' "$before" "$after"
  for row in "${rows[@]}"; do
    IFS='|' read -r name rate idle <<<"$row"
    awk -v name="$name" -v rate="$rate" -v one="$before" -v again="$after" -v idle="$idle" \
      'BEGIN {printf "| %s | %.0f | %.0f %% | %s |\n", name, rate, 100 * rate / (one + again), idle}'
  done
  echo
done
