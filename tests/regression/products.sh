#!/bin/bash
# Which kernel makes each product of a step: none takes a slow path without a reason.
# SPDX-License-Identifier: Apache-2.0
source "$(dirname "$0")/lib.sh"

# Odd widths, a prime vocabulary and tensor ranks: extents that no kernel likes.
odd=(model.hidden=42 model.heads=3 model.kv_heads=3 model.feed_forward=39 model.sequence=23
  model.vocabulary=263 batch.global=3 parallel.tensor=3
  data.source=text data.tokenizer=none data.packing=concatenate)
done_well() { [ "$status" = 0 ]; }
# The lines of the table but its head.
lines() { grep -E '^(forward|input gradient|weight gradient) ' "$work/out"; }
# Every product that goes through fp32 says why at the end of its line, and no other.
reasons_are_given() {
  [ "$(lines | wc -l)" -gt 0 ] &&
    ! lines | grep '  through fp32  ' | grep -qv 'no products of bf16\|multiplies fp16' &&
    ! lines | grep -v '  through fp32  ' | grep -q 'no products of bf16\|multiplies fp16'
}

for type in fp32 bf16 fp16; do
  run 3 bench "$SOURCE/tests/regression/tiny.toml" precision.compute=$type "${odd[@]}" \
    --products --quick --steps 1
  check "$type: the program ends well" done_well
  check "$type: a slow path has its reason" reasons_are_given
  check "$type: the head is in it" grep -q "12 x 88 x 42" "$work/out"
  check "$type: what is not timed is said" grep -q 'without documents within rows' "$work/out"
done
run 1 bench --products
check "no deck" expect 64 "name a deck"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
