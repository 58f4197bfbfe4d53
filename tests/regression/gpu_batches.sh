#!/usr/bin/env bash
# Batches of prompts on an emulated GPU: neighbours, stops, ranks, codes, and refusals.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
device=cuda
cat >"$work/prompts.jsonl" <<'END'
{"prompt": "The license", "tokens": 6, "logprobs": 2}
{"prompt": "x", "samples": 2, "temperature": 1, "seed": 4, "tokens": 7}
{"prompt": "Apache License, Version 2.0, January 2004, and what follows", "tokens": 5}
{"prompt": "no more than this", "repetition_penalty": 1.3, "tokens": 8}
END
# batch OUT RANKS OPTION...
batch() {
  local out=$1 ranks=$2
  shift 2
  run "$ranks" generate "$model" --prompts "$work/prompts.jsonl" -o "$work/$out" \
    --temperature 0 --chunk 32 --device "$device" "$@"
}
texts() { sed 's/,"request.*//; s/,"logprobs.*//' "$1"; }

# Heads of 32 elements: in bf16 tensor cores do their attention and all products.
for type in fp64 bf16; do
  model=$work/$type
  run 1 train tests/regression/tiny.toml run.directory="$model" run.steps=1 run.device=cpu \
    model.sequence=96 model.head_width=32 batch.global=2 \
    optimizer.schedule.warmup=0 checkpoint.every=1 precision.compute=$type
  check "a model in $type" test "$status" = 0
  batch $type.jsonl 1
  check "a batch in $type" test "$status" = 0
  check "$type: a line for each text" test "$(wc -l <"$work/$type.jsonl")" = 5
  batch $type.other 1 --texts 2 --step-tokens 40 --block 3
  check "$type: other neighbours" cmp "$work/$type.other" "$work/$type.jsonl"
  head -1 "$work/$type.jsonl" >"$work/$type.again.partial"
  sed -n 4p "$work/$type.jsonl" | head -c 40 >>"$work/$type.again.partial"
  batch $type.again 1
  check "$type: goes on" grep -q 'behind 1 finished' "$work/out"
  check "$type: to the same bytes" cmp "$work/$type.again" "$work/$type.jsonl"
done
model=$work/fp64
device=cpu
batch host.jsonl 1
device=cuda
check "the host's texts" cmp <(texts "$work/host.jsonl") <(texts "$work/fp64.jsonl")
TRIREME_EMULATION_DEVICES=2 batch stages.jsonl 2 --pipeline 2
check "two stages" cmp <(texts "$work/stages.jsonl") <(texts "$work/fp64.jsonl")
TRIREME_EMULATION_DEVICES=2 batch tensor.jsonl 2
check "two tensor ranks" cmp <(texts "$work/tensor.jsonl") <(texts "$work/fp64.jsonl")
batch placed.jsonl 1 --device-map auto --max-memory gpu0=1KiB
check "weights on the host" cmp <(texts "$work/placed.jsonl") <(texts "$work/fp64.jsonl")

TRIREME_EMULATION_DEVICES=4 batch four.jsonl 4
check "four tensor ranks send by MPI" grep -q 'messages of 4 tensor ranks by MPI' "$work/out"
check "four tensor ranks" cmp <(texts "$work/four.jsonl") <(texts "$work/fp64.jsonl")
TRIREME_EMULATION_DEVICES=4 batch four.other 4 --texts 2 --step-tokens 40 --block 3
check "four tensor ranks: other neighbours" cmp "$work/four.other" "$work/four.jsonl"

# Codes, which become numbers before each product.
model=$SOURCE/tests/reference/quantized/nf4_double
printf '{"prompt_tokens": [%s], "tokens": 4}\n' 1 3,5,9 2,4,6,8,10,12 >"$work/prompts.jsonl"
batch codes.jsonl 1 --weights codes
check "codes" test "$status" = 0
check "are kept" grep -q 'of codes in place of' "$work/out"
batch codes.other 1 --weights codes --texts 1
check "codes: other neighbours" cmp "$work/codes.other" "$work/codes.jsonl"
finish
