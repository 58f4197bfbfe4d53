#!/usr/bin/env bash
# Two builds of the program give the same bits on decks of every kind, on 1 to 8 ranks.
# SPDX-License-Identifier: Apache-2.0
# Weights, moments, metrics and plans are compared. Together the decks have every
# schedule, strategy, recipe and architecture.
#
# Usage: tests/bench/same_numbers.sh OLD_PROGRAM NEW_PROGRAM [WORD]
#   WORD: only decks whose line contains it
# For changes of the code that must not change what it computes. Needs no build of the tests.
set -u
old=$(realpath "$1") new=$(realpath "$2") word=${3:-}
cd "$(dirname "$0")/../.." || exit 70
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-same.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 \
  OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1 OMP_PROC_BIND=false \
  OPENBLAS_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# RANKS OVERRIDES...: a deck is tests/regression/tiny.toml with these changes.
decks() {
  local moe='model.architecture=mixtral model.moe.experts=4 model.moe.top_k=2'
  local pipe='model.layers=4 parallel.pipeline=2'
  local recipe='model.hidden=64 model.feed_forward=128 model.vocabulary=272'
  cat <<LINES
1
1 precision.compute=fp32 run.threads=1
1 model.architecture=gpt2 model.kv_heads=4 model.tie_embeddings=true precision.compute=bf16
1 $moe optimizer.name=sgd
1 precision.compute=fp16 recompute.policy=full
1 precision.compute=fp32 optimizer.schedule.name=wsd optimizer.schedule.decay=2 data.source=synthetic data.paths=[]
2 $pipe parallel.schedule=gpipe batch.micro=2
2 $pipe parallel.schedule=1f1b precision.compute=fp32
2 $pipe parallel.schedule=interleaved parallel.virtual_stages=2
2 $pipe parallel.schedule=zb_h1 recompute.policy=selective recompute.pieces=["norm","activation"]
2 $pipe parallel.schedule=zb_v parallel.virtual_stages=2 precision.compute=bf16
2 $pipe parallel.schedule=dualpipe_v parallel.virtual_stages=2 model.tie_embeddings=true
2 parallel.sharding_strategy=ZERO1 precision.compute=fp32
3 parallel.sharding_strategy=SHARD_GRAD_OP parallel.wrap=size parallel.wrap_parameters=3000
4 parallel.sharding_strategy=FULL_SHARD precision.compute=bf16 parallel.prefetch=2
4 parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=2 parallel.offload=optimizer
2 parallel.sharding_strategy=FULL_SHARD parallel.offload=weights precision.compute=fp32
4 parallel.tensor=2 parallel.sequence=true batch.micro=2 parallel.tensor_chunks=2
4 parallel.context=2 parallel.tensor=2 precision.compute=fp32
2 parallel.context=2 parallel.context_method=ulysses recompute.policy=full
4 $moe parallel.expert=2 parallel.sharding_strategy=FULL_SHARD model.moe.capacity_factor=1.5
8 $moe model.layers=4 parallel.pipeline=2 parallel.tensor=2 parallel.expert=2 parallel.sequence=true
2 $recipe precision.compute=fp8 precision.recipe=te_delayed parallel.tensor=2 parallel.sequence=true
2 $recipe precision.compute=fp8 precision.recipe=te_current
2 $recipe precision.compute=fp8 precision.recipe=mxfp8 parallel.sharding_strategy=FULL_SHARD
1 $recipe precision.compute=fp8 precision.recipe=deepseek_v3
2 $recipe precision.compute=fp8 precision.recipe=ms_amp_o2 parallel.sharding_strategy=ZERO1
2 $recipe precision.compute=bf16 precision.recipe=bf16_pure precision.rounding=stochastic
2 precision.compute=bf16 precision.gradient_reduce=bf16 precision.error_feedback=true
LINES
}

# numbers PROGRAM FOLDER RANKS OVERRIDES...: writes what must be the same to FOLDER.
numbers() {
  local program=$1 folder=$2 ranks=$3 run=$work/run
  shift 3
  local steps=(run.steps=6 metrics.every=1 health.nan=skip run.directory="$run")
  mkdir -p "$folder"
  rm -rf "$run"
  "$program" plan tests/regression/tiny.toml --ranks "$ranks" "$@" >"$folder/plan" 2>&1
  timeout 300 mpirun -n "$ranks" "$program" train tests/regression/tiny.toml "${steps[@]}" \
    "$@" >"$folder/log" 2>&1 || {
    grep -A3 "trireme: error" "$folder/log"
    return 1
  }
  # Without times, rates, memory and what follows from them.
  local changing='[a-z_. ]*(seconds|per_second|mfu|tflops)|memory[a-z_.]*|mfu[a-z_]*'
  changing+='|allocations|resident_bytes|checkpoint_bytes|wall_time|(slowest|idle)_[a-z_]*'
  sed -E 's/"('"$changing"')": ?(\[[^]]*\]|\{[^}]*\}|[^,}]*),? ?//g' \
    "$run/metrics.jsonl" >"$folder/metrics"
  "$program" inspect "$run" --tensors >"$folder/tensors" 2>&1 || return 1
  # The deck's own text and the times of the checkpoint may differ.
  grep -E '^ *(model|optimizer)[/.]|[0-9a-f]{16}' "$folder/tensors" >"$folder/digests"
}

tried=0 different=0
while read -r ranks overrides; do
  line="$ranks $overrides"
  [[ $line == *"$word"* ]] || continue
  tried=$((tried + 1))
  # shellcheck disable=SC2086  # the words of the line are the arguments
  if ! numbers "$old" "$work/old" "$ranks" $overrides </dev/null; then
    echo "the old program does not run: $line"
    different=$((different + 1))
    continue
  fi
  # shellcheck disable=SC2086
  numbers "$new" "$work/new" "$ranks" $overrides </dev/null ||
    echo "the new program does not run: $line"
  for what in plan metrics digests; do
    [ -s "$work/old/$what" ] && cmp -s "$work/old/$what" "$work/new/$what" && continue
    echo "$what differ: $line"
    diff "$work/old/$what" "$work/new/$what" | cut -c 1-300 | head -4
    different=$((different + 1))
  done
done < <(decks)
echo "$tried decks, $different differences"
[ "$different" = 0 ] && [ "$tried" -gt 0 ]
