#!/usr/bin/env bash
# Adapters: files of PEFT both ways, merging, resuming, bad decks and folders.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"
adapters=$SOURCE/tests/reference/adapters

# 1. What PEFT wrote has its logits: in fp32, sums of some 40 terms, as for folders.
for name in llama llama_saved gpt2 gpt_neox phi3 deepseek_v3; do
  run 1 evaluate "${name%_saved}" tokens.h5 --adapter "$adapters/$name" --logits "$work/$name.h5"
  check "$name is evaluated" test "$status" = 0
  check "$name has PEFT's logits" "$H5_COMPARE" "$work/$name.h5" "$adapters/$name.h5" 2e-5
done

# 2. Training starts from the model to the bit, resumes to the bit, and writes the same model thrice.
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
run 1 train "$deck" run.steps=1 "run.directory=$work/plain" adapter.rank=0 adapter.alpha=8.0 \
  adapter.dropout=0.0 'adapter.modules_to_save=[]'
run 1 train "$deck" run.steps=1 "run.directory=$work/first" adapter.dropout=0.0
check "the first step trains" test "$status" = 0
field "$work/plain/metrics.jsonl" loss >"$work/a"
field "$work/first/metrics.jsonl" loss >"$work/b"
check "step 0 is the model's to the bit" cmp "$work/a" "$work/b"
run 2 train "$deck" "run.directory=$work/whole"
check "adapters train on two ranks" test "$status" = 0
run 2 train "$deck" "run.directory=$work/parts" debug.fault=kill@5@0
run 2 train "$deck" "run.directory=$work/parts"
check "the run resumes" test "$status" = 0
field "$work/whole/metrics.jsonl" loss | tail -1 >"$work/a"
field "$work/parts/metrics.jsonl" loss | tail -1 >"$work/b"
check "resumed to the bit" cmp "$work/a" "$work/b"
run 2 train "$deck" "run.directory=$work/whole" run.steps=8 parallel.tensor=2
check "it resumes on another mesh" test "$status" = 0
run 1 convert "$work/whole" "$work/adapter"
check "the adapter is written" test -s "$work/adapter/adapter_model.safetensors"
run 1 evaluate "$work/whole" tokens.h5 --logits "$work/own.h5"
run 1 evaluate llama tokens.h5 --adapter "$work/adapter" --logits "$work/two.h5"
check "the folder has the run's logits" "$H5_COMPARE" "$work/own.h5" "$work/two.h5" 1e-6
run 2 convert "$work/whole" "$work/merged" --merge
run 1 evaluate "$work/merged" tokens.h5 --logits "$work/merged.h5"
check "so has the merged model" "$H5_COMPARE" "$work/own.h5" "$work/merged.h5" 1e-6
run 1 convert llama "$work/added.ck" --merge-adapter "$adapters/llama"
run 1 convert "$work/added.ck" "$work/base" --unmerge-adapter "$adapters/llama"
run 1 evaluate llama tokens.h5 --logits "$work/base.h5"
run 1 evaluate "$work/base" tokens.h5 --logits "$work/again.h5"
check "what is merged can be taken away" "$H5_COMPARE" "$work/again.h5" "$work/base.h5" 2e-5
run 1 evaluate llama tokens.h5 --adapter "$adapters/llama=0.5,$adapters/llama=0.5" --logits "$work/half.h5"
check "two halves are a whole" "$H5_COMPARE" "$work/half.h5" "$adapters/llama.h5" 2e-5
run 1 train "$deck" "run.directory=$work/on" "adapter.from=$work/adapter" run.steps=1
check "a run starts from a folder" test "$status" = 0

# 3. One message each: STATUS, what it says, and the words of the deck.
refused() {
  local want=$1 says=$2
  shift 2
  run 1 train "$deck" --check "run.directory=$work/bad" "$@"
  check "refused: $says" expect "$want" "$says"
}
refused 65 "adapter.rank" adapter.rank=0
refused 64 "adapter.rank" adapter.rank=-1
refused 64 "adapter.dropout" adapter.dropout=1.5
refused 65 "fits no linear layer" 'adapter.targets=["nobody_proj"]'
refused 65 "no regular expression" 'adapter.targets=["re:q_(proj"]'
refused 65 "fits no linear layer" 'adapter.targets=["lm_head"]'
refused 65 "PATTERN=NUMBER" 'adapter.rank_pattern=["q_proj"]'
refused 65 "PATTERN=NUMBER" 'adapter.rank_pattern=["q_proj=0"]'
refused 65 "fits none of" 'adapter.rank_pattern=["w9=4"]'
refused 65 "fits no module" 'adapter.modules_to_save=["tail"]'
damaged() {
  local want=$1 says=$2
  run 1 evaluate "${3:-llama}" tokens.h5 --adapter "$work/damaged"
  check "refused: $says" expect "$want" "$says"
  rm -rf "$work/damaged"
}
fresh() { cp -r "$adapters/${1:-llama}" "$work/damaged"; }
damaged 66 "adapter_model.safetensors\|No such\|is not there"
fresh && rm "$work/damaged/adapter_config.json"
damaged 66 "adapter_config.json"
fresh && rm "$work/damaged/adapter_model.safetensors"
damaged 66 "adapter_model.safetensors"
fresh gpt2
damaged 65 "no tensor of an adapter for this model"
fresh && head -c 3000 "$adapters/llama/adapter_model.safetensors" >"$work/damaged/adapter_model.safetensors"
damaged 65 "adapter_model.safetensors"
fresh && sed -i 's/"r": 4/"r": 5/' "$work/damaged/adapter_config.json"
damaged 65 "has the rank"
fresh && sed -i 's/"r": 4/"r": 0/' "$work/damaged/adapter_config.json"
damaged 65 "'r'"
fresh && sed -i 's/"use_dora": false/"use_dora": true/' "$work/damaged/adapter_config.json"
damaged 65 "use_dora"
fresh && sed -i 's/"LORA"/"IA3"/' "$work/damaged/adapter_config.json"
damaged 65 "peft_type"
fresh && echo "{" >"$work/damaged/adapter_config.json"
damaged 65 "is no JSON"
run 1 evaluate llama tokens.h5 --adapter "$adapters/llama=much"
check "refused: a weight" expect 64 "is no weight"
run 1 convert "$work/whole" "$work/adapter"
check "nothing is replaced" expect 73 "is there already"
run 1 convert llama "$work/own.ck" --merge
check "a folder has no adapter of its own" expect 64 "no adapter of its own"
run 1 train "$deck" "run.directory=$work/none" "model.from=$work/whole" adapter.rank=0 adapter.alpha=8.0 \
  adapter.dropout=0.0 'adapter.modules_to_save=[]'
check "an adapter is not left out silently" expect 65 "merge them first"
finish
