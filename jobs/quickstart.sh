#!/bin/bash
# From nothing to generated text: installs, builds, trains a small model on four ranks.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: jobs/quickstart.sh [section.key=value ...]     overrides of inputs/quickstart.toml
#   RANKS=<n>   ranks to start (default: 4)
# Running it again continues from the last checkpoint; "rm -r runs/quickstart" starts anew.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/setup.sh release trireme
trireme=build/release/trireme
ranks=${RANKS:-4}

if [ "$(id -u)" = 0 ]; then  # Open MPI refuses root unless told twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# Ranks may be more than cores here: let one that waits give way, and bind none.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_PROC_BIND=false
cores=$(nproc)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}

# A tokenizer of the texts that the deck names: it takes a second, and the same number of
# steps then sees three times as much text as byte by byte.
tokenizer=runs/quickstart/tokenizer.json
mkdir -p runs/quickstart
[ -f $tokenizer ] ||
  $trireme tokenize README.md CONTRIBUTING.md docs kernels comm io src --train 2048 -o $tokenizer

mpirun -n "$ranks" $trireme train inputs/quickstart.toml \
  data.source=text data.tokenizer=$tokenizer model.vocabulary=2048 "$@"

echo
echo "== generated text"
OMP_NUM_THREADS=$cores $trireme generate runs/quickstart --prompt "The " --tokens 200

echo
echo "== the checkpoint"
$trireme inspect runs/quickstart/checkpoints/latest
