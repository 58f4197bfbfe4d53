#!/bin/bash
# Strong scaling from one rank to two, by axis: tokens/s, efficiency, idle shares.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/scaling.sh PROGRAM [fp32] [bf16]     default: both
#   TRIREME_ROUNDS=<n>   times that each mesh runs, in turn (default: 3)
# Takes half an hour on 2 cores that do nothing else, one thread a rank. tokens/s: the median
# and the best of a round are those of its steps after the first; of the rounds the median and
# the best stand in the table. Efficiency: over twice that of one rank. A virtual machine whose
# neighbours come and go has other medians every time: the best say what the program can do.
# Idle shares of pipelines, in the last round: of each rank, measured and simulated with the
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

# tokens_per_second RANKS KEY=VALUE...: "median best"
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
    awk '{x[NR] = $1} END {print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, x[NR]}'
}

# of_rounds FILE: the median of the first column, and the largest of the second.
of_rounds() {
  sort -g "$1" | awk '{x[NR] = $1; if ($2 > best) best = $2}
    END {print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, best}'
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
  "one rank|1|"
  "data 2|2|"
  "data 2, FULL_SHARD|2|parallel.sharding_strategy=FULL_SHARD"
  "tensor 2|2|parallel.tensor=2"
  "tensor 2, sequence|2|parallel.tensor=2 parallel.sequence=true"
  "context 2, zig-zag|2|parallel.context=2"
  "pipeline 2, 1F1B|2|parallel.pipeline=2 parallel.schedule=1f1b"
  "pipeline 2, ZB-H1|2|parallel.pipeline=2 parallel.schedule=zb_h1"
)
for type in "${types[@]}"; do
  rm -f rates-* idle-*
  for ((round = 0; round < ${TRIREME_ROUNDS:-3}; ++round)); do
    for i in "${!meshes[@]}"; do
      IFS='|' read -r name ranks words <<<"${meshes[i]}"
      # shellcheck disable=SC2086  # the overrides are several words
      tokens_per_second "$ranks" precision.compute="$type" $words >>"rates-$i"
      idle_shares >"idle-$i"
    done
  done
  printf '| %s | tokens/s, median | best | efficiency, median | best | pipeline |\n' "$type"
  echo "| --- | --- | --- | --- | --- | --- |"
  read -r one best_one <<<"$(of_rounds rates-0)"
  for i in "${!meshes[@]}"; do
    IFS='|' read -r name ranks words <<<"${meshes[i]}"
    read -r rate best <<<"$(of_rounds "rates-$i")"
    awk -v name="$name" -v n="$ranks" -v rate="$rate" -v best="$best" -v one="$one" \
      -v best_one="$best_one" -v idle="$(cat "idle-$i")" 'BEGIN {
        printf "| %s | %.0f | %.0f | %.0f %% | %.0f %% | %s |\n", name, rate, best,
          100 * rate / (n * one), 100 * best / (n * best_one), idle}'
  done
  echo
done
