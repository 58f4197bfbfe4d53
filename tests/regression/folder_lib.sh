# Helpers of the tests with Hugging Face folders: logits, and round trips.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE/tests/reference/folders" || exit 1

# tensors CHECKPOINT: digest and name of each, a line each.
tensors() { "$TRIREME" inspect "$1" --tensors 2>/dev/null | grep -E '^[0-9a-f]{32} .* model/' | sort; }

# has_logits NAME [LIMIT]: those of transformers. In fp32 2e-5 is some 100 roundings of 6e-8
# in a row of sums of 40 terms.
has_logits() {
  run 1 evaluate "$1" tokens.h5 --logits "$work/$1.h5"
  check "$1 is evaluated" test "$status" = 0
  check "$1 has the logits of transformers" "$H5_COMPARE" "$work/$1.h5" "$1.h5" "${2:-2e-5}"
}

# has_logits_of_long_texts NAME: those of windows that are longer than its positions; from
# a checkpoint, too.
has_logits_of_long_texts() {
  run 1 evaluate "$1" tokens.h5 --sequence 16 --logits "$work/$1.h5"
  check "$1 has the logits of transformers" "$H5_COMPARE" "$work/$1.h5" "$1.h5" 2e-5
  run 1 convert "$1" "$work/$1.long"
  run 2 evaluate "$work/$1.long" tokens.h5 --sequence 16 --logits "$work/$1.h5"
  check "$1 has them as a checkpoint" "$H5_COMPARE" "$work/$1.h5" "$1.h5" 2e-5
}

# goes_round NAME: to a checkpoint, and back to the same bytes.
goes_round() {
  local name=$1 file
  run 1 convert "$name" "$work/$name.ck"
  check "$name becomes a checkpoint" test "$status" = 0
  run 2 convert "$work/$name.ck" "$work/$name.out" --shard-bytes 9000
  check "$name becomes a folder again" test "$status" = 0
  run 2 convert "$work/$name.out" "$work/$name.again"
  tensors "$work/$name.ck" >"$work/a"
  tensors "$work/$name.again" >"$work/b"
  check "$name keeps every tensor" cmp "$work/a" "$work/b"
  check "$name has tensors" test -s "$work/a"
  for file in config.json tokenizer.json generation_config.json; do
    check "$name keeps $file" cmp "$name/$file" "$work/$name.out/$file"
  done
  run 1 convert "$work/$name.ck" "$work/$name.one"
  [ ! -f "$name/model.safetensors" ] ||
    check "$name keeps every byte" cmp "$name/model.safetensors" "$work/$name.one/model.safetensors"
}

# is_written_without_codes NAME: a folder of quantized weights becomes one of numbers.
is_written_without_codes() {
  local name=$1
  run 2 convert "$name" "$work/$name.ck"
  check "$name becomes a checkpoint" test "$status" = 0
  run 1 convert "$work/$name.ck" "$work/$name.out"
  check "$name becomes a folder" test "$status" = 0
  check "$name is quantized no more" not_quantized "$work/$name.out/config.json"
  run 1 convert "$work/$name.out" "$work/$name.again"
  tensors "$work/$name.ck" >"$work/a"
  tensors "$work/$name.again" >"$work/b"
  check "$name keeps every number" cmp "$work/a" "$work/b"
  check "$name has tensors" test -s "$work/a"
  run 1 evaluate "$work/$name.out" tokens.h5 --logits "$work/b.h5"
  check "$name has the same logits" "$H5_COMPARE" "$work/b.h5" "$name.h5" 2e-5
  run 1 convert "$name" "$work/$name.half" --dtype bf16
  run 1 inspect "$work/$name.half" --tensors
  check "$name is read as bf16" grep -q 'bf16 .*mlp.*down_proj.weight' "$work/out"
}
not_quantized() { ! grep -q quantization "$1"; }
