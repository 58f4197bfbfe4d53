#!/usr/bin/env bash
# Every family of Hugging Face folders: logits, and round trips.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"

differs() { ! "$H5_COMPARE" "$1" "$2" 1e-3; }

for config in */config.json; do
  name=${config%/*}
  case $name in
    llama | mixtral | gpt2) continue ;;   # are in folders.sh
    llama_dynamic) has_logits_of_long_texts $name ;;
    llama_linear) has_logits $name 3e-2 ;;  # bf16: a rounding is 4e-3, and blocks add up
    *_vision)  # of whose text the model is
      has_logits $name
      check "$name says what it leaves out" grep -q "2 tensors of vision or multi-token" "$work/out"
      run 1 convert "$name" "$work/$name.ck"
      run 1 convert "$work/$name.ck" "$work/$name.out"
      check "$name becomes a folder" test "$status" = 0
      check "$name is written as text" grep -qE '"Qwen3_5(Moe)?ForCausalLM"' "$work/$name.out/config.json"
      run 1 convert "$work/$name.out" "$work/$name.again"
      tensors "$work/$name.ck" >"$work/a"
      tensors "$work/$name.again" >"$work/b"
      check "$name keeps every number" cmp "$work/a" "$work/b"
      continue
      ;;
    *_fp8 | *_mxfp4)
      has_logits $name
      is_written_without_codes $name
      continue
      ;;
    gpt2_long | gpt2_scaled) ;;  # their texts are compared (folder_texts.sh)
    *) has_logits $name ;;
  esac
  goes_round $name
done

# What 8 ranks with pipeline stages, tensor ranks and experts of their own have trained is
# written as what one rank has.
cat >"$work/deck.toml" <<'DECK'
[model]
sequence = 16
[batch]
global = 4
micro = 1
[data]
source = "tokens"
paths = ["tokens.h5"]
[optimizer]
name = "sgd"
learning_rate = 0.1
betas = [0.0, 0.0]
DECK
for name in mixtral deepseek_v3; do
  run 1 train "$work/deck.toml" run.steps=2 run.directory="$work/$name.1" model.from=$name
  run 8 train "$work/deck.toml" run.steps=2 run.directory="$work/$name.8" model.from=$name \
    parallel.pipeline=2 parallel.tensor=2 parallel.expert=2 parallel.sharding_strategy=FULL_SHARD
  check "$name is trained on 8 ranks" test "$status" = 0
  for ranks in 1 8; do
    run 2 convert "$work/$name.$ranks" "$work/$name.of.$ranks"
    run 1 evaluate "$work/$name.of.$ranks" tokens.h5 --logits "$work/$ranks.h5"
  done
  check "$name of 8 ranks is that of one" "$H5_COMPARE" "$work/8.h5" "$work/1.h5" 2e-5
  check "$name has learned" differs "$work/8.h5" $name.h5
done
finish
