#!/usr/bin/env bash
# QLoRA of a model of Llama 3.2 1B's shape: memory beside the plan, resuming, merging.
# SPDX-License-Identifier: Apache-2.0
# Usage: qlora.sh PROGRAM PEAK_MEMORY FOLDER [RANKS [STRATEGY [WORDS OF THE DECK...]]]: makes
# the model of random numbers in FOLDER, which it removes, and trains a few steps on so
# many ranks. Needs some 8 GB of memory and 10 GB of disk.
set -eu
program=$1 peak=$2 folder=$3 ranks=${4:-2} strategy=${5:-FULL_SHARD}
shift $(($# < 5 ? $# : 5))
launch="mpirun --oversubscribe"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT
cat >"$folder/deck.toml" <<EOD
model.sequence = 64
data.source = "synthetic"
batch.global = $ranks
batch.micro = 1
precision.compute = "bf16"
optimizer.learning_rate = 1e-3
checkpoint.keep = 0
EOD
shape='model.architecture=llama model.layers=16 model.hidden=2048 model.heads=32 model.kv_heads=8
  model.head_width=64 model.feed_forward=8192 model.vocabulary=128256 model.tie_embeddings=true'
losses() { grep -o '"loss":[^,}]*' "$folder/$1/metrics.jsonl"; }

# 1. the model: an adapter beside random numbers, merged
$launch -n 1 "$program" train "$folder/deck.toml" $shape batch.global=1 run.steps=1 adapter.rank=1 \
  'adapter.targets=["q_proj"]' "run.directory=$folder/random" >"$folder/log"
$launch -n 1 "$program" convert "$folder/random" "$folder/base" --merge
rm -r "$folder/random"

# 2. QLoRA without a stop, and with one
train() { # NAME, and words of the deck
  local name=$1
  shift
  rm -f "$folder/kilobytes"
  $launch -n "$ranks" "$peak" "$folder/kilobytes" "$program" train "$folder/deck.toml" \
    "model.from=$folder/base" adapter.rank=16 adapter.alpha=32.0 adapter.quantize=nf4 \
    "parallel.sharding_strategy=$strategy" "run.directory=$folder/$name" checkpoint.every=2 \
    "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
}
train whole run.steps=4 "$@"
grep -E '^(base|memory|codes)' "$folder/log" || true
grep -A 12 'held now' "$folder/log"
losses whole
awk '{ print "a rank held at most " $1 / 1024 " MiB (resident)" }' "$folder/kilobytes"
grep -o '"memory_peak_bytes":[^,}]*' "$folder/whole/metrics.jsonl" | tail -1
train parts run.steps=2 "$@"
train parts run.steps=4 "$@"
grep -E '^resume' "$folder/log"
losses whole >"$folder/a"
losses parts >"$folder/b"
cmp "$folder/a" "$folder/b" && echo "resumed to the bit"

# 3. merging
$launch -n "$ranks" "$program" convert "$folder/whole" "$folder/merged" --merge
$launch -n 1 "$program" generate "$folder/whole" --prompt-tokens 1,2,3 --tokens 4 --temperature 0 >"$folder/a" 2>/dev/null
$launch -n 1 "$program" generate "$folder/merged" --prompt-tokens 1,2,3 --tokens 4 --temperature 0 >"$folder/b" 2>/dev/null
echo "the run's tokens: $(cat "$folder/a"); the merged model's: $(cat "$folder/b")"
