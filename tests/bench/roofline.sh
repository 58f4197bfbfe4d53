#!/bin/bash
# Compiles all kernels for three GPUs and says what the compiler made of them.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/roofline.sh [--check] ROOFLINE [FOLDER]
#   ROOFLINE  the program that reads cubins: build/<preset>/tests/bench/roofline
#   FOLDER    where cubins go (default: build/roofline)
#   --check   prints only what is wrong: local memory in a hot kernel, stores that are
#             narrower than tests/bench/roofline/kernels.txt says, kernels that it leaves out
# No GPU is needed, only nvcc. Every rate and time that is printed is predicted from
# tests/bench/roofline/gpus.txt. Exit status: 0 all is well, 1 a kernel is not as the table
# says, 66 there is no nvcc, 70 a kernel does not compile.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 70

check=()
if [ "${1:-}" = --check ]; then
  check=(--check)
  shift
fi
roofline=${1:?usage: tests/bench/roofline.sh [--check] ROOFLINE [FOLDER]}
folder=${2:-build/roofline}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
  echo "roofline.sh: nvcc is not installed" >&2
  exit 66
fi

# All of kernels/cuda; first those that take longest, so that all cores end together.
long=(attention/generic_backward attention/generic attention/one_pass_backward)
units=("${long[@]}")
for file in kernels/cuda/*/*.cu; do
  unit=${file#kernels/cuda/}
  unit=${unit%.cu}
  [[ " ${long[*]} " = *" $unit "* ]] || units+=("$unit")
done
architectures=(sm_80 sm_90a sm_100a)
ccache=  # it keeps cubins for other clones, too, where -c says that one file is made of one
if command -v ccache >/dev/null; then ccache=ccache; fi

# compile ARCHITECTURE UNIT: with the options of a release build, but for the code of hosts.
compile() {
  local to="$folder/$1/$2.cubin"
  mkdir -p "$(dirname "$to")"
  $ccache "$nvcc" -c -cubin -arch="$1" -std=c++20 -O3 -DNDEBUG \
    --expt-relaxed-constexpr -Ikernels/cuda/machine -I. -Isrc \
    "kernels/cuda/$2.cu" -o "$to.part" && mv "$to.part" "$to"
}
export -f compile
export folder nvcc ccache

for unit in "${units[@]}"; do
  printf "%s $unit\n" "${architectures[@]}"
done | xargs -P "$(nproc)" -n 2 bash -c 'compile "$@"' compile || exit 70

cubins=()
for architecture in "${architectures[@]}"; do
  cubins+=("${units[@]/#/$folder/$architecture/}")
done
"$roofline" "${check[@]}" tests/bench/roofline inputs "${cubins[@]/%/.cubin}"
