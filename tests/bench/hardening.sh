#!/usr/bin/env bash
# What two builds of the program cost against each other, in CPU seconds.
# SPDX-License-Identifier: Apache-2.0
# Both do the same training and the same kernels, in turn.
#
# Usage: hardening.sh BUILD_A BUILD_B [ROUNDS]     folders with trireme and kernel_bench
# CPU seconds and not time: they depend less on what else the machine does. The spread of
# each build says how much of a difference is noise.
set -euo pipefail
a=$1
b=$2
rounds=${3:-7}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMPI_MCA_ess_singleton_isolated=1
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >"$work/deck.toml" <<'DECK'
[run]
name = "gpt2-small"
steps = 6

[model]
architecture = "gpt2"
layers = 2
hidden = 192
heads = 6
vocabulary = 1024
sequence = 128

[data]
source = "synthetic"

[batch]
global = 4
micro = 2

[optimizer]
learning_rate = 1e-3
schedule.warmup = 0
DECK

train() { "$1/trireme" train "$work/deck.toml" run.directory="$work/run-$RANDOM-$RANDOM"; }
kernels() { "$1/tests/bench/kernel_bench" --quick; }

# cpu_seconds WORK BUILD
cpu_seconds() {
  local TIMEFORMAT='%U %S'
  { time "$1" "$2" >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }; } 2>"$work/time"
  tail -n 1 "$work/time" | awk '{ print $1 + $2 }'
}

for what in train kernels; do
  : >"$work/a"
  : >"$work/b"
  for _ in $(seq "$rounds"); do
    cpu_seconds $what "$a" >>"$work/a"
    cpu_seconds $what "$b" >>"$work/b"
  done
  paste <(sort -n "$work/a") <(sort -n "$work/b") | awk -v what=$what '
    { a[NR] = $1; b[NR] = $2 }
    END {
      m = int((NR + 1) / 2)
      printf "%s: A %.2f s (%.2f to %.2f), B %.2f s (%.2f to %.2f), median B/A %.3f, least B/A %.3f\n",
        what, a[m], a[1], a[NR], b[m], b[1], b[NR], b[m] / a[m], b[1] / a[1]
    }'
done
