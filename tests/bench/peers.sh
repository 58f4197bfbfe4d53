#!/bin/bash
# Training steps of GPT-2 124M on CPUs, PyTorch's and ours in turn, and their ratio.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/peers.sh PROGRAM PYTHON [ROUNDS [TYPES [TOKENS]]]
#   4 sequences of TOKENS (256), all cores, TYPES "bf16 fp32"; the median step of each run. PyTorch
#   compiled and not, with an allocator that keeps its pages; the better one counts. Our threads
#   wait as OpenMP's do by default, PyTorch's sleep at once: each is faster so.
set -u
cd "$(dirname "$0")/../.." || exit 70
program=${1:?usage: peers.sh PROGRAM PYTHON [ROUNDS]}
python=${2:?usage: peers.sh PROGRAM PYTHON [ROUNDS]}
rounds=${3:-2}
types=${4:-bf16 fp32}
tokens=${5:-256}

# Milliseconds of the median step and its share of the GEMM rate.
ours() {
  "$program" bench inputs/gpt2-124m.toml precision.compute="$1" model.sequence="$tokens" --steps 10 |
    sed -n 's/.*: median \(.*\) %, best.*median step \(.*\) ms/\2 \1/p'
}
# torch TYPE OPTIONS...: microseconds to milliseconds of a step.
torch() {
  local type=$1
  shift
  [ "$type" = fp32 ] && set -- "$@" --fp32
  OMP_WAIT_POLICY=passive MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=20000000000 MALLOC_TOP_PAD_=67108864 \
    "$python" tests/bench/peer_torch.py gpt2 --device cpu --batch 4 --sequence "$tokens" "$@" 2>/dev/null |
    awk '/^step of/ { print $(NF - 2) / 1000 }'
}

"$program" --version | head -3
"$python" -c 'import torch; print("PyTorch", torch.__version__)'
grep -m 1 'model name' /proc/cpuinfo
printf '%-5s %-6s %10s %8s %12s %12s %7s\n' round type 'ours, ms' 'share, %' 'torch, ms' 'compiled, ms' ratio
for round in $(seq "$rounds"); do
  for type in $types; do
    read -r step part <<<"$(ours "$type")"
    eager=$(torch "$type" --eager)
    compiled=$(torch "$type")
    awk -v r="$round" -v t="$type" -v o="$step" -v p="$part" -v e="$eager" -v c="${compiled:-0}" \
      'BEGIN { best = (c > 0 && c < e) ? c : e
        printf "%-5s %-6s %10s %8s %12s %12s %7.2f\n", r, t, o, p, e, c, best / o }'
  done
done
