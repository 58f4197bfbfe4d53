#!/usr/bin/env bash
# Every family of Hugging Face folders: logits, and round trips.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"

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
finish
