#!/usr/bin/env bash
# Models that run from codes: the same bits as of decoded weights, in less memory.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"
quantized=$SOURCE/tests/reference/quantized

# 1. Every way to quantize has the logits of its numbers, on one rank and split over two.
# same RANKS FOLDER NAME [ARGS]: logits from codes, in memory and from the disk, and from numbers
# are the same bits.
same() {
  run "$1" evaluate "$2" tokens.h5 --logits "$work/placed.h5" --max-memory cpu=0 "${@:4}"
  check "$3 runs from the disk" grep -q 'block.* disk' "$work/out"
  placed_codes=$(grep -c 'of which .* are codes' "$work/out")
  run "$1" evaluate "$2" tokens.h5 --weights numbers --logits "$work/numbers.h5" "${@:4}"
  check "$3 runs from numbers" test "$status" = 0
  check "$3: numbers are numbers" not_coded
  run "$1" evaluate "$2" tokens.h5 --logits "$work/codes.h5" "${@:4}"
  check "$3 runs from codes" test "$status" = 0
  check "$3 has the same bits on $1" "$H5_COMPARE" "$work/codes.h5" "$work/numbers.h5" 0
  check "$3 has the same bits from the disk" "$H5_COMPARE" "$work/placed.h5" "$work/numbers.h5" 0
}
coded() { grep -q 'of codes in place of' "$work/out"; }
not_coded() { ! coded; }
for config in "$quantized"/*/config.json; do
  folder=${config%/*}
  name=${folder##*/}
  same 1 "$folder" "$name"
  case $name in
    gptq_order) check "$name has too many scales for codes" not_coded ;;
    *)
      check "$name is kept as codes" coded
      check "$name comes as codes" test "$placed_codes" = 1
      ;;
  esac
done
for name in qwen3_fp8 gpt_oss_mxfp4; do
  same 1 "$name" "$name"
  check "$name is kept as codes" coded
done
# Products with scales in fp16 are rounded to fp16 on their way to another type.
for name in gptq ct_int4_zero; do
  for type in float32 bfloat16; do
    cp -r "$quantized/$name" "$work/$name.$type"
    sed -i "s/\"dtype\": \"float16\"/\"dtype\": \"$type\"/" "$work/$name.$type/config.json"
    same 1 "$work/$name.$type" "$name in $type"
    rm -rf "$work/$name.$type"
  done
done
for name in nf4_odd int8; do same 2 "$quantized/$name" "$name"; done
same 2 qwen3_fp8 qwen3_fp8
# Few rows, which read the codes themselves.
for name in nf4_odd fp4 int8 ct_fp8_channel ct_int8_zero gptq awq; do
  same 1 "$quantized/$name" "$name by four tokens" --sequence 4
done
same 2 "$quantized/nf4" "nf4 by two tokens" --sequence 2
same 2 qwen3_fp8 "qwen3_fp8 by two tokens" --sequence 2
same 1 gpt_oss_mxfp4 "experts by four tokens" --sequence 4
run 1 convert deepseek_v3 "$work/latent" --quantize nf4
same 1 "$work/latent" "latent attention by four tokens" --sequence 4
check "latent attention has codes" coded

# 2. Texts are the same, stages and batches included.
model=$quantized/nf4_double
text() { # RANKS WEIGHTS OUT ARGS...: the text is standard output; tables are not
  local weights=$2 out=$3 launcher=()
  [ "$1" = 1 ] || launcher=("$MPIRUN" -n "$1")
  timeout 600 "${launcher[@]}" "$TRIREME" generate "$model" --weights "$weights" --tokens 12 \
    --seed 3 "${@:4}" >"$work/$out" 2>"$work/out" </dev/null
  status=$?
  check "a text of $weights on $1" test "$status" = 0
}
text 1 numbers a --prompt-tokens 1,5,9
text 1 codes b --prompt-tokens 1,5,9
check "the text is the same" cmp "$work/a" "$work/b"
text 1 codes b --prompt-tokens 1,5,9 --max-memory cpu=0
check "the text is the same from the disk" cmp "$work/a" "$work/b"
text 2 numbers a --prompt-tokens 1,5,9
text 2 codes b --prompt-tokens 1,5,9
check "the text is the same on two tensor ranks" cmp "$work/a" "$work/b"
echo '{"prompt_tokens": [1, 5, 9]}' >"$work/prompts.jsonl"
echo '{"prompt_tokens": [2, 7]}' >>"$work/prompts.jsonl"
text 1 numbers a --prompts "$work/prompts.jsonl" -o "$work/a.jsonl"
text 1 codes b --prompts "$work/prompts.jsonl" -o "$work/b.jsonl"
check "the texts of a batch are the same" cmp "$work/a.jsonl" "$work/b.jsonl"
text 1 codes b --prompts "$work/prompts.jsonl" -o "$work/c.jsonl" --max-memory cpu=0
check "the texts of a batch are the same from the disk" cmp "$work/a.jsonl" "$work/c.jsonl"
model=$work/latent
text 1 numbers a --prompt-tokens 1,5,9
text 1 codes b --prompt-tokens 1,5,9
check "the text of latent attention is the same" cmp "$work/a" "$work/b"
text 1 codes b --prompt-tokens 1,5,9 --max-memory cpu=0
check "the text of latent attention is the same from the disk" cmp "$work/a" "$work/b"
echo '{"": "disk", "model.layers.0": "cpu"}' >"$work/map.json"
text 1 codes b --prompt-tokens 1,5,9 --device-map "$work/map.json"
check "the text is the same with one block in memory" cmp "$work/a" "$work/b"
text 2 codes b --prompt-tokens 1,5,9 --pipeline 2 --max-memory cpu=0
check "the text is the same from the disk on two stages" cmp "$work/a" "$work/b"

# 3. What an adapter changes is numbers; the rest stays codes.
run 1 evaluate llama tokens.h5 --weights codes
check "a folder of numbers has no codes" not_coded
run 1 convert llama "$work/nf4" --quantize nf4
run 1 convert "$work/nf4" "$work/decoded.ck" --dtype fp32
run 1 evaluate "$work/nf4" tokens.h5 --adapter "$SOURCE/tests/reference/adapters/llama" --logits "$work/codes.h5"
check "an adapter goes with codes" test "$status" = 0
run 1 evaluate "$work/decoded.ck" tokens.h5 --adapter "$SOURCE/tests/reference/adapters/llama" --logits "$work/numbers.h5"
check "and has the logits of decoded weights" "$H5_COMPARE" "$work/codes.h5" "$work/numbers.h5" 0
run 1 evaluate "$work/nf4" tokens.h5 --weights words
check "an unknown word" expect 64 'none of auto, codes and numbers'
finish
