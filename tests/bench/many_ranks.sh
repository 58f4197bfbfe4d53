#!/bin/bash
# Starts, saves, kills and resumes runs of many ranks on one machine, and compares losses.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/many_ranks.sh PROGRAM [RANKS...]     (default: 64 96)
# For each number of ranks, a multiple of 32, it trains a tiny Llama with FULL_SHARD and a
# model of experts on a mesh of five axes: seven steps without a disturbance, then the same
# with a rank that is killed in step 7, behind the checkpoint of step 5, and once more to the
# end. Losses of both must agree in every digit. Prints a row for each; fails if one differs.
# The data of the second are files of this tree, which must stay as they are meanwhile.
set -uo pipefail
program=$(realpath "${1:?usage: $0 PROGRAM [RANKS...]}")
shift
cd "$(dirname "$0")/../.." || exit 70
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-ranks.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 \
  OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1 OMP_PROC_BIND=false \
  OPENBLAS_NUM_THREADS=1
[ "$(id -u)" != 0 ] ||
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0

# train NAME RANKS ARGUMENTS...: sets status and seconds; the log is $work/NAME.log.
train() {
  local name=$1 ranks=$2 begin=$SECONDS
  shift 2
  timeout 900 mpirun -n "$ranks" "$program" train "$@" run.directory="$work/$name" \
    run.steps=7 checkpoint.every=5 >>"$work/$name.log" 2>&1 </dev/null
  status=$?
  seconds=$((SECONDS - begin))
}

# losses NAME: of each step, as they are in the metrics.
losses() { grep -o '"loss":[^,}]*' "$work/$1/metrics.jsonl"; }

row() { printf '%-6s  %-11s  %9s  %9s  %9s  %s\n' "$@"; }

# compare DECK RANKS ARGUMENTS...
compare() {
  local deck=$1 ranks=$2 whole killed verdict
  shift 2
  rm -rf "$work"/whole* "$work"/broken*
  train whole "$ranks" "$@"
  whole=$seconds verdict="status $status"
  if [ "$status" = 0 ]; then
    train broken "$ranks" "$@" debug.fault=kill@7@3
    killed=$seconds
    train broken "$ranks" "$@"
    verdict="status $status"
    if [ "$status" = 0 ] && grep -q '^resume' "$work/broken.log" &&
      diff <(losses whole) <(losses broken) >"$work/difference"; then
      verdict="losses equal"
    fi
  fi
  [ "$verdict" = "losses equal" ] || {
    failed=1
    tail -n 5 "$work"/whole.log "$work"/broken.log 2>/dev/null
  }
  row "$ranks" "$deck" "$whole s" "${killed:--} s" "$seconds s" "$verdict"
}

row ranks mesh "7 steps" "to kill" resumed result
for ranks in "${@:-64 96}"; do
  # shellcheck disable=SC2086  # the default is two words
  for n in $ranks; do
    compare FULL_SHARD "$n" tests/regression/tiny.toml batch.global="$n" \
      parallel.sharding_strategy=FULL_SHARD
    compare "five axes" "$n" inputs/mesh-5d.toml precision.compute=fp64 \
      batch.global=$((n / 4)) batch.micro=1
  done
done
exit $failed
