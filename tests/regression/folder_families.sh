#!/usr/bin/env bash
# Every family of Hugging Face folders: logits, and round trips.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"

for config in */config.json; do
  name=${config%/*}
  case $name in
    llama | mixtral | gpt2) continue ;;   # are in folders.sh
    llama_linear) has_logits $name 3e-2 ;;  # bf16: a rounding is 4e-3, and blocks add up
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
