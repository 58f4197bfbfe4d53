#!/usr/bin/env bash
# Damaged and hostile Hugging Face folders: one message, the status, nothing written.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE/tests/reference/folders" || exit 1

# bad STATUS WORDS CASE COMMAND...: a copy of the folder CASE, which COMMAND changes in its
# own directory, is refused.
bad() {
  local wanted=$1 words=$2 name=$3
  shift 3
  rm -rf "$work/bad"
  cp -r "$name" "$work/bad"
  (cd "$work/bad" && "$@")
  run 1 convert "$work/bad" "$work/to"
  check "$words" expect "$wanted" "$words"
  check "$words: nothing is written" test ! -e "$work/to"
}
edit() { sed -i "$1" "$2"; }                     # a text file
link() { mv "$1" "$1.real" && ln -s "$1.real" "$1"; }
pipe() { rm "$1" && mkfifo "$1"; }
# length FILE BYTES: the first eight bytes of a file.
length() { printf "$2" | dd of="$1" conv=notrunc status=none; }
pickle() { rm model*.safetensors && touch pytorch_model.bin; }
# rename FILE OLD NEW: in the header, to a name as long.
rename() { LC_ALL=C sed -i "0,/$2/s//$3/" "$1"; }

f=model.safetensors
index=model.safetensors.index.json
bad 66 'there is no config.json' llama rm config.json
bad 66 'there is neither' llama rm $f
bad 65 'pickle' llama pickle
bad 65 'is no JSON' llama edit 's/"head_dim": 6/"head_dim": NaN/' config.json
bad 65 "'head_dim'" llama edit 's/"head_dim": 6/"head_dim": "x"/' config.json
bad 65 "'hidden_size'" llama edit 's/"hidden_size": 24/"hidden_size": -24/' config.json
bad 65 "'model_type' = \"bert\"" llama edit 's/"model_type": "llama"/"model_type": "bert"/' config.json
bad 65 "'architectures'" llama edit 's/LlamaForCausalLM/LlamaForTokenClassification/' config.json
bad 65 '"longrope"' llama edit 's/"llama3"/"longrope"/' config.json
bad 65 "'rope_theta' is missing" llama edit '/"rope_theta"/d;s/"original_max_position_embeddings": 8,/"original_max_position_embeddings": 8,/' config.json
bad 65 "'attention_bias' = true" llama edit 's/"attention_bias": false/"attention_bias": true/' config.json
bad 65 "'hidden_act'" llama edit 's/"silu"/"gelu"/' config.json
bad 65 "'sliding_window'" mistral edit 's/"sliding_window": null/"sliding_window": -5/' config.json
bad 65 "'layer_types'.* is no list of 3 layers" ministral edit '0,/"full_attention",/s///' config.json
bad 65 "'decoder_sparse_step' = 2" qwen3_moe edit 's/"decoder_sparse_step": 1/"decoder_sparse_step": 2/' config.json
bad 65 "layer_types" qwen2 edit 's/full_attention/linear_attention/' config.json
bad 65 "'num_key_value_heads' = 3 must divide" llama edit 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' config.json
bad 65 'model.layers.2.input_layernorm.weight.* is missing' llama edit 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' config.json
bad 65 'is no tensor of this model' llama edit 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' config.json
bad 65 'has the shape \[67, 24\], where \[68, 24\]' llama edit 's/"vocab_size": 67/"vocab_size": 68/' config.json
bad 65 'is missing' llama rename $f input_layernorm input_layernorn
bad 65 'comes twice' llama rename $f layers.1.input_layernorm layers.0.input_layernorm
bad 65 'HeaderTooLarge' llama length $f '\377\377\377\377\377\377\377\377'
bad 65 'InvalidHeaderLength' llama length $f '\000\000\000\004\000\000\000\000'
bad 65 'InvalidHeaderDeserialization' llama length $f '\020\000\000\000\000\000\000\000'
bad 65 'MetadataIncompleteBuffer' llama truncate -s -4 $f
bad 65 'HeaderTooSmall' llama truncate -s 7 $f
bad 65 'data_offsets\|InvalidOffset\|TensorInvalidInfo' llama rename $f 'offsets":\[0' 'offsets":[4'
bad 65 'symbolic link' llama link $f
bad 65 'named pipe' llama pipe $f
bad 65 'symbolic link' llama link config.json
bad 65 'named pipe' llama pipe config.json
bad 65 'is missing' qwen3 rm model-00002-of-00003.safetensors
bad 65 'no file of this folder' qwen3 edit 's/model-00002/..\/model-00002/' $index
bad 65 'is not in' qwen3 edit 's/"model.norm.weight"/"model.norn.weight"/' $index
bad 65 'weight_map' qwen3 edit 's/weight_map/weight_nap/' $index
bad 65 'is no JSON' qwen3 truncate -s 100 $index
run 1 convert "$work/absent" "$work/to"
check "an absent folder" expect 66 'there is no checkpoint here'
run 1 convert llama "$work/to" --dtype int4
check "an unknown type" expect 64 "none of fp32"
run 1 generate "$work/bad" --prompt-tokens 1
check "generate refuses it too" expect 65 'is no JSON'
finish
