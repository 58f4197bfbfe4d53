#!/usr/bin/env bash
# Adapters: files of PEFT both ways, merging, resuming, bad decks and folders.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/adapter_lib.sh"
adapters=$SOURCE/tests/reference/adapters

# 1. What PEFT wrote has its logits: in fp32, sums of some 40 terms, as for folders.
for name in llama llama_saved gpt2 gpt_neox phi3 deepseek_v3 llama_dora gpt2_dora; do
  base=${name%_dora}
  run 1 evaluate "${base%_saved}" tokens.h5 --adapter "$adapters/$name" --logits "$work/$name.h5"
  check "$name is evaluated" test "$status" = 0
  check "$name has PEFT's logits" "$H5_COMPARE" "$work/$name.h5" "$adapters/$name.h5" 2e-5
done

# 2. Training starts from the model to the bit, resumes to the bit, and writes the same model thrice.
run 1 train "$deck" run.steps=1 "run.directory=$work/plain" adapter.rank=0 adapter.alpha=8.0 \
  adapter.dropout=0.0 'adapter.modules_to_save=[]'
run 1 train "$deck" run.steps=1 "run.directory=$work/first" adapter.dropout=0.0
check "the first step trains" test "$status" = 0
same_losses first plain "step 0 is the model's to the bit"
run 2 train "$deck" "run.directory=$work/whole"
check "adapters train on two ranks" test "$status" = 0
run 2 train "$deck" "run.directory=$work/parts" debug.fault=kill@5@0
run 2 train "$deck" "run.directory=$work/parts"
check "the run resumes" test "$status" = 0
same_end whole parts "resumed to the bit"
run 2 train "$deck" "run.directory=$work/whole" run.steps=8 parallel.tensor=2
check "it resumes on another mesh" test "$status" = 0
for other in adapter.alpha=400.0 adapter.rslora=true 'adapter.alpha_pattern=["q_proj=99"]'; do
  run 1 train "$deck" "run.directory=$work/whole" run.steps=9 "$other"
  check "a resume multiplies adapters as before: $other" expect 65 "was trained with the factor"
done
run 1 train "$deck" "run.directory=$work/whole" run.steps=9 'adapter.targets=["q_proj"]'
check "a resume drops no adapter" expect 65 "which this run has not and would drop"
run 1 train "$deck" "run.directory=$work/whole" run.steps=9 adapter.rank=0 adapter.alpha=8.0 \
  adapter.dropout=0.0 'adapter.modules_to_save=[]'
check "nor all of them" expect 65 "which this run has not and would drop"
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
cp -r "$adapters/llama" "$work/negative"
sed -i -e 's/"lora_alpha": 6/"lora_alpha": -6/' -e 's/"mlp.up_proj": 9/"mlp.up_proj": -9/' "$work/negative/adapter_config.json"
run 1 evaluate llama tokens.h5 --adapter "$work/negative=-1" --logits "$work/negative.h5"
check "a negative lora_alpha is one" "$H5_COMPARE" "$work/negative.h5" "$adapters/llama.h5" 2e-5
run 1 train "$deck" "run.directory=$work/on" "adapter.from=$work/adapter" run.steps=1
check "a run starts from a folder" test "$status" = 0

# Whole modules of a folder that the deck leaves out would be lost in what is exported.
saved="adapter.from=$adapters/llama_saved adapter.rslora=true adapter.alpha=5.0 adapter.dropout=0.0"
run 1 train "$deck" "run.directory=$work/lost" $saved 'adapter.targets=["q_proj","v_proj"]' \
  'adapter.modules_to_save=[]' run.steps=1
check "a whole module of the folder is not lost" expect 65 "has 'lm_head' as a whole (modules_to_save)"
run 1 train "$deck" "run.directory=$work/kept" $saved 'adapter.targets=["re:.*\\.[qv]_proj"]' run.steps=1
check "it is kept where it is named" test "$status" = 0
run 1 convert "$work/kept" "$work/kept.adapter"
check "an expression becomes the names of modules" \
  grep -q '"model.layers.0.self_attn.q_proj"' "$work/kept.adapter/adapter_config.json"
run 1 evaluate "$work/kept" tokens.h5 --logits "$work/own.h5"
run 1 evaluate llama tokens.h5 --adapter "$work/kept.adapter" --logits "$work/two.h5"
check "and has the run's logits" "$H5_COMPARE" "$work/own.h5" "$work/two.h5" 1e-6

# Groups of the optimizer reach the adapters' tensors: each moves at the rate of its own.
digests() { tensors "$work/$1" | grep -- "$2" | sort >"$work/$3"; test -s "$work/$3"; }
run 1 train "$deck" "run.directory=$work/still" optimizer.learning_rate=0
run 2 train "$deck" "run.directory=$work/plus" 'optimizer.groups=["*lora_A* frozen","*lora_B* learning_rate=0.16"]'
check "adapters train in groups" test "$status" = 0
for half in A B; do
  check "half $half" digests still "model/.*lora_$half" "still.$half"
  check "half $half in groups" digests plus "model/.*lora_$half" "plus.$half"
done
check "the frozen half stays" cmp "$work/still.A" "$work/plus.A"
check "the other moves" test "$(comm -12 "$work/still.B" "$work/plus.B" | wc -l)" = 0

# A tied head goes with the embedding: PEFT reads both, and is told to tie them.
run 1 train "$deck" "run.directory=$work/tied" model.from=qwen2 'adapter.modules_to_save=["embed_tokens"]'
check "the embedding of a tied model trains" test "$status" = 0
run 1 convert "$work/tied" "$work/tied.adapter"
check "its adapter says so" grep -q '"ensure_weight_tying": true' "$work/tied.adapter/adapter_config.json"
check "and has the head" grep -aq '"base_model.model.lm_head.weight"' "$work/tied.adapter/adapter_model.safetensors"
run 1 evaluate "$work/tied" tokens.h5 --logits "$work/tied.h5"
run 1 evaluate qwen2 tokens.h5 --adapter "$work/tied.adapter" --logits "$work/tied.two.h5"
check "it has the run's logits" "$H5_COMPARE" "$work/tied.h5" "$work/tied.two.h5" 1e-6

# 3. DoRA: PEFT's gradients in fp64, and what holds for the others. The file has them in fp32: 6e-8. The class of
# llama makes norms and turns in fp32 even so, some 20 roundings in a row.
gradients() { # NAME BASE LIMIT, and the words of the deck
  local name=$1 base=$2 limit=$3
  shift 3
  run 2 train "$deck" "run.directory=$work/$name" "model.from=$base" "adapter.from=$adapters/$name" \
    adapter.dora=true adapter.dropout=0.0 'adapter.modules_to_save=[]' run.steps=1 batch.global=2 batch.micro=1 \
    precision.compute=fp64 data.source=tokens 'data.paths=["tokens.h5"]' 'debug.dump_gradients=[1]' "$@"
  check "$name trains" test "$status" = 0
  check "$name has PEFT's gradients" "$H5_COMPARE" "$work/$name/gradients/step-00000001.h5" \
    "$adapters/${name}_gradients.h5" "$limit"
}
gradients llama_dora llama 2e-6 model.sequence=16 'adapter.alpha_pattern=["mlp.up_proj=9"]'
gradients gpt2_dora gpt2 2e-7 adapter.rank=2 adapter.alpha=4.0 'adapter.targets=["c_attn","c_proj","c_fc"]' parallel.tensor=2
dora="adapter.dora=true adapter.dropout=0.0"
run 1 train "$deck" run.steps=1 "run.directory=$work/dora.first" $dora
same_losses dora.first plain "step 0 with DoRA is the model's to the bit"
run 2 train "$deck" "run.directory=$work/dora" $dora
check "DoRA trains" test "$status" = 0
run 2 train "$deck" "run.directory=$work/dora.parts" $dora debug.fault=kill@5@0
run 2 train "$deck" "run.directory=$work/dora.parts" $dora
same_end dora dora.parts "DoRA resumes to the bit"
run 1 evaluate "$work/dora" tokens.h5 --logits "$work/own.h5"
run 1 convert "$work/dora" "$work/dora.adapter"
check "the folder says so" grep -q '"use_dora": true' "$work/dora.adapter/adapter_config.json"
run 1 evaluate llama tokens.h5 --adapter "$work/dora.adapter" --logits "$work/two.h5"
check "the DoRA folder has the run's logits" "$H5_COMPARE" "$work/own.h5" "$work/two.h5" 1e-6
run 2 convert "$work/dora" "$work/dora.merged" --merge
run 1 evaluate "$work/dora.merged" tokens.h5 --logits "$work/merged.h5"
check "so has the merged model" "$H5_COMPARE" "$work/own.h5" "$work/merged.h5" 1e-6
run 1 evaluate llama tokens.h5 --adapter "$adapters/llama_dora=0.5,$adapters/llama_dora=0.5" --logits "$work/half.h5"
check "two halves of DoRA are a whole" "$H5_COMPARE" "$work/half.h5" "$adapters/llama_dora.h5" 2e-5
run 1 convert "$work/dora.merged" "$work/dora.base" --unmerge-adapter "$work/dora.adapter"
check "DoRA is not taken away" expect 64 "cannot be taken away again"
run 1 convert llama "$work/saved.base" --unmerge-adapter "$adapters/llama_saved"
check "nor are whole modules" expect 64 "whole modules (modules_to_save), which cannot be taken away again"
# An adapter that trained nothing changes nothing, before another or behind it.
run 1 convert "$work/still" "$work/still.adapter"
run 1 evaluate llama tokens.h5 --adapter "$work/still.adapter,$adapters/llama_saved" --logits "$work/saved.h5"
check "whole modules of two adapters are added up" "$H5_COMPARE" "$work/saved.h5" "$adapters/llama_saved.h5" 2e-5
run 1 train "$deck" "run.directory=$work/dora.on" adapter.dropout=0.0 "adapter.from=$work/dora.adapter" run.steps=1
check "a folder with DoRA wants a run with it" expect 65 "write adapter.dora = true"

# 4. One message each: STATUS, what it says, and the words of the deck.
refused 65 "adapter.rank" adapter.rank=0
refused 64 "adapter.rank" adapter.rank=-1
refused 64 "adapter.dropout" adapter.dropout=1.5
refused 65 "fits no linear layer" 'adapter.targets=["nobody_proj"]'
refused 65 "no regular expression" 'adapter.targets=["re:q_(proj"]'
refused 65 "fits no linear layer" 'adapter.targets=["lm_head"]'
refused 65 "leave nothing to train" 'adapter.targets=[]' 'adapter.modules_to_save=[]'
refused 65 "PATTERN=NUMBER" 'adapter.rank_pattern=["q_proj"]'
refused 65 "PATTERN=NUMBER" 'adapter.rank_pattern=["q_proj=0"]'
refused 65 "fits none of" 'adapter.rank_pattern=["w9=4"]'
refused 65 "fits no module" 'adapter.modules_to_save=["tail"]'
refused 65 "adapter.dora = true and adapter.dropout = 0.1 cannot" adapter.dora=true
refused 65 "made on CPUs alone" $dora run.device=cuda
refused 65 "which multiplies in FP8" $dora precision.compute=fp8
refused 65 "made anew for each chunk" $dora parallel.tensor_chunks=2
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
fresh && mv "$work/damaged/adapter_model.safetensors" "$work/damaged/adapter_model.bin"
damaged 65 "there is no adapter_model.safetensors here, and adapter_model.bin is a pickle file"
fresh gpt2
damaged 65 "no tensor of an adapter for this model"
fresh && head -c 3000 "$adapters/llama/adapter_model.safetensors" >"$work/damaged/adapter_model.safetensors"
damaged 65 "adapter_model.safetensors"
fresh && sed -i 's/"r": 4/"r": 5/' "$work/damaged/adapter_config.json"
damaged 65 "has the rank"
fresh && sed -i 's/"r": 4/"r": 0/' "$work/damaged/adapter_config.json"
damaged 65 "'r'"
fresh && sed -i 's/"use_dora": false/"use_dora": true/' "$work/damaged/adapter_config.json"
damaged 65 "lora_magnitude_vector, which use_dora asks for"
fresh llama_dora && sed -i 's/"use_dora": true/"use_dora": false/' "$work/damaged/adapter_config.json"
damaged 65 "has use_dora false"
fresh && sed -i '/"peft_type"/d' "$work/damaged/adapter_config.json"
damaged 65 "'peft_type' is missing"
fresh && sed -i 's/"LORA"/"IA3"/' "$work/damaged/adapter_config.json"
damaged 65 "peft_type"
fresh && sed -i 's/"model\.layers/"nowhere/' "$work/damaged/adapter_config.json"
damaged 65 "names none of the modules that have matrices"
fresh && sed -i 's/"target_modules": \[/"target_modules": 7, "more": [/' "$work/damaged/adapter_config.json"
damaged 65 "target_modules"
changed() { fresh && sed -i "s/$1/$2/" "$work/damaged/adapter_config.json"; } # OLD NEW, of its configuration
for way in pissa_niter_16 OLoRA corda loftq lora_ga; do
  changed '"init_lora_weights": true' "\"init_lora_weights\": \"$way\""
  damaged 65 "'init_lora_weights' = \"$way\" changes the model's weights.*path_initial_model_for_weight_conversion"
done
changed '"alora_invocation_tokens": null' '"alora_invocation_tokens": [5, 6]'
damaged 65 "'alora_invocation_tokens' = \[5,6\] lets the adapter act behind these tokens alone"
changed '"layer_replication": null' '"layer_replication": [[0, 2], [1, 2]]'
damaged 65 "'layer_replication' = .* repeats layers of the model"
changed '"arrow_config": null' '"arrow_config": {"router_temperature": 1}'
damaged 65 "'arrow_config' = .* makes more of the adapter than matrices that are added"
changed '"lora_alpha": 6' '"lora_alpha": null'
damaged 65 "'lora_alpha' = null is null, where PEFT writes a number"
changed '"r": 4' '"r": 4, "r": 4'
damaged 65 "adapter_config.json: is no JSON: .*twice"
changed '"modules_to_save": null' '"modules_to_save": 5'
damaged 65 "'modules_to_save' = 5 is no list of the names of modules"
changed '"q_proj": 2' '"q_(proj": 2'
damaged 65 "adapter_config.json: 'rank_pattern' has the pattern 'q_(proj', which is no regular expression"
changed '"q_proj": 2' '"q_proj": 0.5'
damaged 65 "'rank_pattern.q_proj'"
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
# Texts of a batch are those of the adapter that made them.
echo '{"prompt_tokens": [1, 2, 3], "tokens": 4}' >"$work/prompts.jsonl"
mkdir "$work/without_tokenizer"
cp llama/config.json llama/*.safetensors* "$work/without_tokenizer/"
texts_by() { run 1 generate "$work/without_tokenizer" --prompts "$work/prompts.jsonl" -o "$work/texts.jsonl" --temperature 0 "$@"; }
texts_by --adapter "$adapters/llama"
check "texts by an adapter" test "$status" = 0
texts_by --adapter "$adapters/llama"
check "the same adapter finds them" test "$status" = 0
texts_by --adapter "$adapters/llama=0.5"
check "another weight does not" expect 73 'remove it, or choose another -o'
texts_by
check "nor does the model alone" expect 73 'remove it, or choose another -o'
# What a folder asks of generation and is not done is named; what changes nothing is not.
echo '{"do_sample": false, "num_beams": 4, "no_repeat_ngram_size": 0}' \
  >"$work/without_tokenizer/generation_config.json"
run 1 generate "$work/without_tokenizer" --prompt-tokens 1,2,3 --tokens 4
check "beams are named" grep -q 'warning: .*asks for num_beams = 4, which is not done here' "$work/out"
long=$(seq -s, 1 40)
run 1 generate "$work/without_tokenizer" --prompt-tokens "$long" --tokens 1
check "a prompt that is longer than the model reads" grep -q 'warning: the prompt has 40 tokens' "$work/out"
finish
