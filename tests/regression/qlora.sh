#!/usr/bin/env bash
# Adapters beside a quantized model: bits of decoded weights, resuming, merging, plans.
# SPDX-License-Identifier: Apache-2.0
# And one message for what cannot be.
. "$(dirname "$0")/folder_lib.sh"

cat >"$work/deck.toml" <<EOD
run.steps = 6
model.from = "llama"
data.source = "synthetic"
batch.global = 4
batch.micro = 2
precision.compute = "fp32"
optimizer.learning_rate = 0.01
checkpoint.every = 3
adapter.rank = 3
adapter.alpha = 6.0
adapter.dropout = 0.1
adapter.modules_to_save = ["lm_head"]
EOD
deck=$work/deck.toml
losses() { field "$work/$1/metrics.jsonl" loss; }
same_losses() {
  losses "$1" >"$work/a"
  losses "$2" >"$work/b"
  check "$3" cmp "$work/a" "$work/b"
  check "$3: there are some" test -s "$work/a"
}
as_planned() { # CLASS: planned bytes are held
  grep -A 12 'held now' "$work/out" | awk -v class="$1" '
    $1 == class { found = 1; bad = $2 $3 != $4 $5; print }
    END { exit bad || !found }'
}

# 1. Codes that are made at the start, codes of a folder, and the numbers they stand for.
for kind in nf4 int8; do
  run 1 convert llama "$work/$kind" --quantize "$kind"
  run 1 convert "$work/$kind" "$work/$kind.ck" --dtype fp32
  run 2 train "$deck" "run.directory=$work/numbers.$kind" "model.from=$work/$kind.ck"
  check "numbers of $kind train" test "$status" = 0
  run 2 train "$deck" "run.directory=$work/stored.$kind" "model.from=$work/$kind" adapter.quantize=stored
  check "codes of a folder of $kind train" test "$status" = 0
  run 2 train "$deck" "run.directory=$work/made.$kind" adapter.quantize=$kind
  check "codes of $kind that are made train" test "$status" = 0
  check "it says what codes take" grep -q "codes of .* are read" "$work/out"
  check "weights and codes are held as planned" as_planned weights
  check "the working memory is planned" as_planned workspace
  same_losses "numbers.$kind" "stored.$kind" "stored codes of $kind train as their numbers, to the bit"
  same_losses "numbers.$kind" "made.$kind" "made codes of $kind train as their numbers, to the bit"
done
run 2 train "$deck" "run.directory=$work/whole" adapter.quantize=nf4 parallel.sharding_strategy=FULL_SHARD
check "codes are sharded" test "$status" = 0
check "shards of codes are held as planned" as_planned weights

# 2. A checkpoint holds no frozen linear layer; a run resumes to the bit, on any mesh.
run 2 train "$deck" "run.directory=$work/parts" adapter.quantize=nf4 debug.fault=kill@5@0
run 2 train "$deck" "run.directory=$work/parts" adapter.quantize=nf4
check "the run resumes" test "$status" = 0
losses parts | tail -1 >"$work/a"
losses made.nf4 | tail -1 >"$work/b"
check "resumed to the bit" cmp "$work/a" "$work/b"
tensors "$work/parts" >"$work/list"
check "the checkpoint has adapters" grep -q 'q_proj.lora_A.weight' "$work/list"
check "the checkpoint has embeddings" grep -q 'embed_tokens.weight' "$work/list"
not_listed() { ! grep -q "$1" "$work/list"; }
check "the checkpoint has no frozen linear layer" not_listed 'q_proj.weight'
run 2 train "$deck" "run.directory=$work/parts" adapter.quantize=nf4 run.steps=7 parallel.tensor=2
check "it resumes on another mesh" test "$status" = 0

# 3. What is made of a checkpoint: the base comes from model.from again.
run 1 evaluate "$work/made.nf4" tokens.h5 --logits "$work/own.h5"
check "the run is evaluated" test "$status" = 0
run 1 convert "$work/made.nf4" "$work/adapter"
check "the adapter is written" test -s "$work/adapter/adapter_model.safetensors"
run 1 evaluate "$work/nf4" tokens.h5 --adapter "$work/adapter" --logits "$work/two.h5"
check "the adapter has the run's logits beside the folder" "$H5_COMPARE" "$work/own.h5" "$work/two.h5" 1e-6
run 2 convert "$work/made.nf4" "$work/merged" --merge
check "it merges" test "$status" = 0
run 1 evaluate "$work/merged" tokens.h5 --logits "$work/merged.h5"
check "the merged model has the run's logits" "$H5_COMPARE" "$work/own.h5" "$work/merged.h5" 1e-6
run 1 convert "$work/made.nf4" "$work/merged.nf4" --merge --quantize nf4
check "it merges into codes" grep -q bitsandbytes "$work/merged.nf4/config.json"
run 1 generate "$work/made.nf4" --prompt-tokens 1,5,9 --tokens 4
check "the run generates" test "$status" = 0

# 4. The plan.
run 1 plan "$deck" adapter.quantize=nf4 --ranks 2
check "the plan names codes" grep -q "^codes .*(nf4) in place of" "$work/out"

# 5. One message each: STATUS, what it says, and the words of the deck.
refused() {
  local want=$1 says=$2
  shift 2
  run 1 train "$deck" --check "run.directory=$work/bad" "$@"
  check "refused: $says" expect "$want" "$says"
}
refused 65 "no weights as codes" adapter.quantize=stored
refused 65 "is quantized already" adapter.quantize=nf4 "model.from=$work/nf4"
refused 65 "is a checkpoint, which holds numbers" adapter.quantize=stored "model.from=$work/nf4.ck"
refused 64 "adapter.quantize" adapter.quantize=nf5
refused 65 "a GPU takes weights as numbers" adapter.quantize=nf4 run.device=cuda
refused 65 "which multiplies in FP8" adapter.quantize=nf4 precision.compute=fp8
refused 65 "adapter.quantize" adapter.quantize=nf4 adapter.rank=0 adapter.alpha=8.0 adapter.dropout=0.0 'adapter.modules_to_save=[]'
refused 65 "merge them first" "model.from=$work/made.nf4"
cp -r llama "$work/moved"
run 1 train "$deck" run.steps=1 "run.directory=$work/away" adapter.quantize=nf4 "model.from=$work/moved"
rm -rf "$work/moved"
run 1 evaluate "$work/away" tokens.h5
check "refused: the base is gone" expect 66 "run this where that path is the model"
finish
