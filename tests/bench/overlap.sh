#!/bin/bash
# Waits for communication, each way of hiding it on and off.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/overlap.sh PROGRAM [RANKS...]     default: 2 and 4
# Takes about seven minutes on 2 cores that do nothing else, one thread a rank. A step: the median
# of the steps after the second. Exposed: the median of a step's exposed seconds on rank 0, in
# which it was blocked because a collective's result was not there. With more ranks than cores a
# rank that waits also waits for its turn on a core.
set -euo pipefail

program=$(realpath "${1:?usage: tests/bench/overlap.sh PROGRAM [RANKS...]}")
deck=$(realpath "$(dirname "$0")")/scaling.toml
shift
[ $# -gt 0 ] || set -- 2 4

folder=$(mktemp -d "${TMPDIR:-/tmp}/trireme-overlap.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_PROC_BIND=false
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
if [ "$(id -u)" = 0 ]; then  # Open MPI refuses root unless told twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Weights enough that what travels shows: 8 blocks of 512, four sequences a rank.
shape=(model.layers=8 model.hidden=512 model.heads=8 model.kv_heads=8 model.feed_forward=1408
  run.steps=12 metrics.every=1)

# median_of KEY: over the metrics' steps after the second, in milliseconds.
median_of() {
  sed -n "/\"kind\": *\"step\"/s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" scaling-run/metrics.jsonl |
    tail -n +3 | sort -g | awk '{x[NR] = 1000 * $1} END {printf "%.1f", x[int((NR + 1) / 2)]}'
}

# measured RANKS KEY=VALUE...: "step ms | exposed ms"
measured() {
  local ranks=$1
  shift
  rm -rf scaling-run
  [ "$ranks" -le "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=1
  if ! mpirun -n "$ranks" "$program" train "$deck" "${shape[@]}" "$@" >log 2>&1; then
    tail -n 5 log >&2
    exit 1
  fi
  echo "$(median_of step_seconds) | $(median_of exposed_seconds)"
}

for ranks in "$@"; do
  data="batch.global=$((4 * ranks)) batch.micro=4"
  cases=(
    "gradients, one bucket after backward|$data parallel.bucket_bytes=1TiB"
    "gradients, buckets of 25 MiB under backward|$data"
    "gradients, buckets of 4 MiB under backward|$data parallel.bucket_bytes=4MiB"
    "FULL_SHARD, no gather ahead|$data parallel.sharding_strategy=FULL_SHARD parallel.prefetch=0"
    "FULL_SHARD, one unit ahead|$data parallel.sharding_strategy=FULL_SHARD parallel.prefetch=1"
    "FULL_SHARD, two units ahead|$data parallel.sharding_strategy=FULL_SHARD parallel.prefetch=2"
    "tensor ranks, whole products|batch.global=4 batch.micro=4 parallel.tensor=$ranks parallel.tensor_chunks=1"
    "tensor ranks, products in 2 parts|batch.global=4 batch.micro=4 parallel.tensor=$ranks parallel.tensor_chunks=2"
    "tensor ranks, products in 4 parts|batch.global=4 batch.micro=4 parallel.tensor=$ranks parallel.tensor_chunks=4"
  )
  printf '| %s ranks | step, ms | exposed, ms |\n| --- | --- | --- |\n' "$ranks"
  for case in "${cases[@]}"; do
    # shellcheck disable=SC2086  # the overrides are several words
    printf '| %s | %s |\n' "${case%%|*}" "$(measured "$ranks" ${case#*|})"
  done
  echo
done
