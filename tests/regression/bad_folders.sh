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
folder_for() { rm "$1" && mkdir "$1"; }
dangle() { mv "$1" "$1.real" && ln -s nowhere "$1"; }
zero() { printf '\0' >>"$1"; }                   # which ends a text in C
pipe() { rm "$1" && mkfifo "$1"; }
nested() { printf '{"a": %s' "$(printf '[%.0s' {1..5000})" >"$1"; }
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
bad 65 "short_factor' is missing" llama edit 's/"llama3"/"longrope"/' config.json
bad 65 "'rope_theta' is missing" llama edit '/"rope_theta"/d;s/"original_max_position_embeddings": 8,/"original_max_position_embeddings": 8,/' config.json
bad 65 "q_proj.bias' of \[24\] is missing" llama edit 's/"attention_bias": false/"attention_bias": true/' config.json
bad 65 "'hidden_act'" llama edit 's/"silu"/"mish"/' config.json
bad 65 'under the name "silu"' gpt_oss edit 's/"silu"/"gelu"/' config.json
bad 65 "'sliding_window'" mistral edit 's/"sliding_window": null/"sliding_window": -5/' config.json
bad 65 "'layer_types'.* is no list of 3 layers" ministral edit '0,/"full_attention",/s///' config.json
bad 65 "'decoder_sparse_step' must be" qwen3_moe edit 's/"decoder_sparse_step": 1/"decoder_sparse_step": 0/' config.json
bad 65 "'mlp_only_layers'.* none of 2 layers" qwen3_moe edit 's/"mlp_only_layers": \[\]/"mlp_only_layers": [7]/' config.json
bad 65 "'shared_expert_intermediate_size'" qwen2_moe edit 's/"shared_expert_intermediate_size": 14/"shared_expert_intermediate_size": -1/' config.json
bad 65 'shared_expert_gate.weight.* is missing' qwen2_moe rename $f shared_expert_gate shared_expert_gata
bad 65 'mlp.gate_proj.bias.* is missing' llama_bias rename $f gate_proj.bias gate_proj.bios
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
bad 65 'link to a file that cannot be opened' llama dangle $f
bad 65 'named pipe' llama pipe $f
bad 65 'link to a file that cannot be opened' llama dangle config.json
bad 65 'directory' llama folder_for config.json
bad 65 'named pipe' llama pipe config.json
bad 65 'is missing' qwen3 rm model-00002-of-00003.safetensors
bad 65 'no file of this folder' qwen3 edit 's/model-00002/..\/model-00002/' $index
bad 65 'is not in' qwen3 edit 's/"model.norm.weight"/"model.norn.weight"/' $index
bad 65 'weight_map' qwen3 edit 's/weight_map/weight_nap/' $index
bad 65 'is no JSON' qwen3 truncate -s 100 $index
bad 65 'is no JSON' llama truncate -s 0 config.json
bad 65 'config.json' llama edit '1,$d;$a []' config.json
bad 65 'is no JSON' llama nested config.json
bad 65 'twice' llama edit 's/"vocab_size": 67/"vocab_size": 67, "vocab_size": 68/' config.json
bad 65 "'hidden_size' must be" llama edit 's/"hidden_size": 24/"hidden_size": 24.5/' config.json
bad 65 "'vocab_size' must be" llama edit 's/"vocab_size": 67/"vocab_size": 0/' config.json
bad 65 "'num_hidden_layers' must be" llama edit 's/"num_hidden_layers": 2/"num_hidden_layers": 1000000000/' config.json
bad 65 "'rms_norm_eps' must be" llama edit 's/"rms_norm_eps": 1e-06/"rms_norm_eps": -1e-06/' config.json
bad 65 "'num_key_value_heads' must be" llama edit 's/"num_key_value_heads": 2/"num_key_value_heads": 0/' config.json
bad 65 "'tie_word_embeddings' must be" llama edit 's/"tie_word_embeddings": false/"tie_word_embeddings": "no"/' config.json
bad 65 "'dtype'" llama edit 's/"float32"/"int4"/' config.json
bad 65 'factor' llama edit 's/"factor": 4.0/"factor": 0/' config.json
bad 65 'wavy' llama edit 's/"llama3"/"wavy"/' config.json
bad 65 'quantized' llama edit '1s/$/"quantization_config": {"quant_method": "hqq"},/' config.json
bad 65 'swiglu_limit' gpt_oss edit 's/"swiglu_limit": 7.0/"swiglu_limit": 8.0/' config.json
bad 65 'has the shape \[5, 24, 40\], where \[4, 24, 40\]' gpt_oss edit 's/"num_local_experts": 5/"num_local_experts": 4/' config.json
bad 65 'experts.down_proj_blocks.* has the shape \[3, 64, 1, 16\], where \[3, 64, 2, 16\]' gpt_oss_mxfp4 edit 's/"intermediate_size": 32/"intermediate_size": 64/' config.json
bad 65 'holds codes, whose scales .*experts.down_proj_scales. are missing' gpt_oss_mxfp4 rename $f down_proj_scales down_proj_scalez
bad 65 'experts.down_proj. of \[3, 32, 64\] is missing' gpt_oss_mxfp4 rename $f down_proj_blocks down_proj_blockz
bad 65 'experts.gate_up_proj. of .* is missing' gpt_oss_mxfp4 edit '/"quantization_config"/,/}/d' config.json
bad 65 "in a way that this program cannot read" gpt_oss_mxfp4 edit 's/"quant_method": "mxfp4"/"quant_method": "nvfp4"/' config.json
bad 65 'weight_scale_inv.* has the shape \[.*\], where' qwen3_fp8 edit '/"weight_block_size"/,/]/s/16/8/' config.json
bad 65 'holds codes, whose scales .*q_proj.weight_scale_inv. are missing' qwen3_fp8 rename $f q_proj.weight_scale_inv q_proj.weight_scale_inw
bad 65 'F8_E4M3, which is no floating type' qwen3_fp8 edit '/"quantization_config"/,/}/d' config.json
bad 65 'is no pair of extents' qwen3_fp8 edit '/"weight_block_size"/,/]/s/16/-16/' config.json
bad 65 "'num_experts_per_tok' = 9 is more than" mixtral edit 's/"num_experts_per_tok": 2/"num_experts_per_tok": 9/' config.json
bad 65 "'sliding_window' must be" mistral_window edit 's/"sliding_window": 5/"sliding_window": 2.5/' config.json
bad 65 "groups cannot give" deepseek_v3 edit 's/"n_group": 2/"n_group": 5/' config.json
bad 65 "'v_head_dim' = 50 is more than" deepseek_v3 edit 's/"v_head_dim": 5/"v_head_dim": 50/' config.json
bad 65 "'qk_rope_head_dim' = 5 must be even" deepseek_v3 edit 's/"qk_rope_head_dim": 4/"qk_rope_head_dim": 5/' config.json
bad 65 "'q_lora_rank' must be" deepseek_v3 edit 's/"q_lora_rank": 14/"q_lora_rank": -14/' config.json
bad 65 'is no JSON' llama edit 's/"silu"/"si\xc0lu"/' config.json
check "a message is UTF-8 whatever it quotes" iconv -f UTF-8 -t UTF-8 -o /dev/null "$work/out"
rm -rf "$work/bad"
cp -r llama "$work/bad"
rm "$work/bad/tokenizer.json"
for command in 'generate --prompt hello' 'evaluate ../../../README.md' chat; do
  set -- $command
  run 1 "$1" "$work/bad" "${@:2}"
  check "$1 without a tokenizer" expect 66 'has no tokenizer.json, tokenizer.model or spiece.model'
done
bad 65 'it has a zero at byte' llama zero config.json
bad 65 'directory' llama folder_for $f
run 1 convert "$work/absent" "$work/to"
check "an absent folder" expect 66 'there is no checkpoint here'
run 1 convert llama "$work/to" --dtype int4
check "an unknown type" expect 64 "none of fp32"
run 1 generate "$work/bad" --prompt-tokens 1
check "generate refuses it too" expect 65 'is a directory'
finish
