#!/usr/bin/env bash
# The program on an emulated GPU runs and trains from codes as on a host from numbers.
# SPDX-License-Identifier: Apache-2.0
# fp32: 2e-5 is some 100 roundings of 6e-8 in a row of sums of 40 terms.
. "$(dirname "$0")/adapter_lib.sh"
quantized=$SOURCE/tests/reference/quantized
coded() { grep -q 'of codes in place of' "$work/out"; }

# 1. Logits of windows of four tokens, which read codes, and of whole ones.
for folder in "$quantized/nf4_odd" "$quantized/fp4" "$quantized/int8" \
  "$quantized/ct_fp8_channel" "$quantized/ct_int8_zero" "$quantized/gptq" "$quantized/awq" \
  qwen3_fp8 gpt_oss_mxfp4; do
  name=${folder##*/}
  limit=2e-5
  case $name in gptq | awq) limit=2e-3 ;; esac  # fp16: some roundings of 2^-11
  for sequence in 4 16; do
    rm -f "$work/host.h5" "$work/gpu.h5"
    run 1 evaluate "$folder" tokens.h5 --sequence $sequence --weights numbers --device cpu --logits "$work/host.h5"
    check "$name on a host" test "$status" = 0
    run 1 evaluate "$folder" tokens.h5 --sequence $sequence --device cuda --logits "$work/gpu.h5"
    check "$name on a GPU" test "$status" = 0
    check "$name is kept as codes" coded
    check "$name has the host's logits by $sequence tokens" "$H5_COMPARE" "$work/gpu.h5" "$work/host.h5" $limit
  done
done

# 2. Texts, also of latent attention, whose upper matrix is decoded.
run 1 convert deepseek_v3 "$work/latent" --quantize nf4
text() { # OUT MODEL ARGS...
  local out=$1
  run 1 generate "$2" --tokens 6 --temperature 0 "${@:3}"
  check "a text of ${*:2}" test "$status" = 0
  grep -v '^weights\|^\[\|^device' "$work/out" >"$work/$out"
}
for model in "$quantized/nf4_double" gpt_oss_mxfp4 "$work/latent"; do
  text a "$model" --device cpu --weights numbers --prompt-tokens 1,5,9
  text b "$model" --device cuda --weights codes --prompt-tokens 1,5,9
  check "the text of ${model##*/} is the same" cmp "$work/a" "$work/b"
done
run 1 generate "$quantized/nf4" --device cuda --device-map auto --weights codes --prompt-tokens 1 --tokens 1
check "what is placed is numbers" expect 64 "place weights as numbers"

# 3. Adapters beside codes that are made at the start train as beside their numbers.
run 1 convert llama "$work/nf4" --quantize nf4
run 1 convert "$work/nf4" "$work/nf4.ck" --dtype fp32
one="run.steps=2 run.device=cuda checkpoint.every=2"
run 1 train "$deck" $one "run.directory=$work/numbers" "model.from=$work/nf4.ck"
check "numbers train on a GPU" test "$status" = 0
run 1 train "$deck" $one "run.directory=$work/made" adapter.quantize=nf4
check "made codes train on a GPU" test "$status" = 0
run 1 train "$deck" $one "run.directory=$work/stored" "model.from=$work/nf4" adapter.quantize=stored
check "a folder's codes train on a GPU" test "$status" = 0
same_losses numbers made "made codes train as their numbers, to the bit"
same_losses numbers stored "a folder's codes train as their numbers, to the bit"
run 1 evaluate "$work/made" tokens.h5 --device cuda --logits "$work/gpu.h5"
run 1 evaluate "$work/made" tokens.h5 --device cpu --logits "$work/host.h5"
check "the run has the host's logits" "$H5_COMPARE" "$work/gpu.h5" "$work/host.h5" 2e-5
run 1 plan "$deck" adapter.quantize=nf4 run.device=cuda
check "the plan for a GPU names codes" grep -q "^codes .*(nf4) in place of" "$work/out"
finish
