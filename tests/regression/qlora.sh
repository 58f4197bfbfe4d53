#!/usr/bin/env bash
# Adapters beside a quantized model: bits of decoded weights, resuming, merging, plans.
# SPDX-License-Identifier: Apache-2.0
# And one message for what cannot be.
. "$(dirname "$0")/adapter_lib.sh"

not_same() { ! cmp -s "$1" "$2"; }
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

# PEFT's adapter beside what the codes stand for.
run 1 evaluate "$work/nf4" tokens.h5 --adapter "$SOURCE/tests/reference/adapters/llama_nf4" --logits "$work/nf4.h5"
check "codes and an adapter have PEFT's logits" "$H5_COMPARE" "$work/nf4.h5" "$SOURCE/tests/reference/adapters/llama_nf4.h5" 1e-5

# 2. A checkpoint holds no frozen linear layer; a run resumes to the bit, on any mesh.
run 2 train "$deck" "run.directory=$work/parts" adapter.quantize=nf4 debug.fault=kill@5@0
run 2 train "$deck" "run.directory=$work/parts" adapter.quantize=nf4
check "the run resumes" test "$status" = 0
same_end parts made.nf4 "resumed to the bit"
tensors "$work/parts" >"$work/list"
check "the checkpoint has adapters" grep -q 'q_proj.lora_A.weight' "$work/list"
check "the checkpoint has embeddings" grep -q 'embed_tokens.weight' "$work/list"
not_listed() { ! grep -q "$1" "$work/list"; }
check "the checkpoint has no frozen linear layer" not_listed 'q_proj.weight'
run 2 train "$deck" "run.directory=$work/parts" adapter.quantize=nf4 run.steps=7 parallel.tensor=2
check "it resumes on another mesh" test "$status" = 0

# A run goes on beside the model and the codes that it began with, and drops nothing.
resumes() { # WANT SAYS, and the words of the deck; once without checkpoints of its own
  local want=$1 says=$2
  shift 2
  run 2 train "$deck" "run.directory=$work/parts" run.steps=8 adapter.quantize=nf4 "$@"
  check "resuming with $*: $says" expect "$want" "$says"
}
cp -r llama "$work/other"
printf 'x' | dd of="$work/other/model.safetensors" bs=1 seek=$(($(stat -c %s llama/model.safetensors) - 40)) conv=notrunc 2>/dev/null
check "the other model is another" not_same llama/model.safetensors "$work/other/model.safetensors"
resumes 65 "beside another model than" "model.from=$work/other"
resumes 65 "stands for other weights" adapter.quantize=int8
resumes 65 'this run has adapter.quantize = "none"' adapter.quantize=none
cp -r llama "$work/copy"
run 2 train "$deck" "run.directory=$work/parts" run.steps=8 adapter.quantize=nf4 "model.from=$work/copy"
check "it resumes beside a copy of the model" test "$status" = 0
run 2 train "$deck" "run.directory=$work/saved" adapter.quantize=nf4 run.steps=1 \
  'adapter.targets=["q_proj"]' 'adapter.modules_to_save=["down_proj"]'
check "a module in blocks is trained whole" test "$status" = 0
run 2 train "$deck" "run.directory=$work/saved" adapter.quantize=nf4 run.steps=2 \
  'adapter.targets=["q_proj"]' 'adapter.modules_to_save=[]'
check "a module that was trained whole is not dropped" expect 65 "as numbers, which would be lost"

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

# 4. DoRA beside codes has the bits of DoRA beside their numbers; it merges.
dora="adapter.dora=true adapter.dropout=0.0"
run 2 train "$deck" "run.directory=$work/dora.codes" $dora adapter.quantize=nf4
check "DoRA trains beside codes" test "$status" = 0
check "weights of DoRA are held as planned" as_planned weights
check "gradients of DoRA are held as planned" as_planned gradients
check "activations of DoRA are held as planned" as_planned activations
run 2 train "$deck" "run.directory=$work/dora.numbers" $dora "model.from=$work/nf4.ck"
same_losses dora.codes dora.numbers "DoRA beside codes trains as beside their numbers, to the bit"
run 1 evaluate "$work/dora.codes" tokens.h5 --logits "$work/own.h5"
run 1 convert "$work/dora.codes" "$work/dora.adapter"
run 1 evaluate "$work/nf4" tokens.h5 --adapter "$work/dora.adapter" --logits "$work/two.h5"
check "the DoRA adapter has the run's logits beside the folder" "$H5_COMPARE" "$work/own.h5" "$work/two.h5" 1e-6

# 5. The plan.
run 1 plan "$deck" adapter.quantize=nf4 --ranks 2
check "the plan names codes" grep -q "^codes .*(nf4) in place of" "$work/out"

# 6. One message each: STATUS, what it says, and the words of the deck.
refused 65 "no weights as codes" adapter.quantize=stored
refused 65 "is quantized already" adapter.quantize=nf4 "model.from=$work/nf4"
refused 65 "is a checkpoint, which holds numbers" adapter.quantize=stored "model.from=$work/nf4.ck"
refused 64 "adapter.quantize" adapter.quantize=nf5
refused 65 "which layer is decoded in a graph" adapter.quantize=nf4 run.device=cuda run.cuda_graphs=true
refused 65 "which multiplies in FP8" adapter.quantize=nf4 precision.compute=fp8
refused 65 "adapter.quantize" adapter.quantize=nf4 adapter.rank=0 adapter.alpha=8.0 adapter.dropout=0.0 'adapter.modules_to_save=[]'
refused 65 "merge them first" "model.from=$work/made.nf4"
cp -r llama "$work/moved"
run 1 train "$deck" run.steps=1 "run.directory=$work/away" adapter.quantize=nf4 "model.from=$work/moved"
run 1 evaluate "$work/away" tokens.h5
check "the base is where it was" test "$status" = 0
cp "$work/other/model.safetensors" "$work/moved/"
for command in "evaluate $work/away tokens.h5" "generate $work/away --prompt-tokens 1 --tokens 1" \
  "convert $work/away $work/never --merge"; do
  run 2 $command
  check "refused beside another base: $command" expect 65 "beside another model than"
done
rm -rf "$work/moved"
run 1 evaluate "$work/away" tokens.h5
check "refused: the base is gone" expect 66 "run this where that path is the model"
finish
