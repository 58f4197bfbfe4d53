#!/bin/bash
# Data of a run as a person sees and shapes them: texts written while it trains.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml

# learn NAME RANKS OPTION...: a run in $work/NAME.
learn() {
  local name=$1 ranks=$2
  shift 2
  run "$ranks" train $deck run.directory="$work/$name" run.steps=6 "$@"
}
done_well() { [ "$status" = 0 ]; }
# texts NAME: what a run wrote.
texts() { grep -o '"samples":.*' "$work/$1/metrics.jsonl"; }
same_texts() { texts "$1" >"$work/a" && texts "$2" >"$work/b" && diff "$work/a" "$work/b"; }

# 1. Texts change nothing, and are the same on every mesh.
writes='metrics.sample_every=3 metrics.sample_tokens=5'
prompts='metrics.sample_prompts=["The","a","of t"]'
learn silent 1 checkpoint.every=6
learn writes 1 checkpoint.every=6 $writes "$prompts" metrics.tensorboard=true
check "texts leave losses and weights as they are" identical silent writes
check "three texts, twice" [ "$(texts writes | grep -o '"prompt"' | wc -l)" = 6 ]
check "in the log" grep -q 'step 3  text 1  The | ' "$work/out"
check "and for TensorBoard" grep -qa 'samples/3' "$work"/writes/tensorboard/*
for mesh in parallel.tensor=2 parallel.context=2 parallel.pipeline=2 batch.micro=2 \
  parallel.sharding_strategy=FULL_SHARD; do
  learn "$mesh" 2 $writes "$prompts" "$mesh"
  check "the same texts with $mesh" same_texts writes "$mesh"
done
drawn="$writes metrics.sample_temperature=1.5"
learn drawn 1 $drawn "$prompts"
different() { ! same_texts writes drawn; }
check "drawn texts are others" different
learn drawn_again 2 $drawn "$prompts" parallel.tensor=2
check "and the same on tensor ranks" same_texts drawn drawn_again
learn long 1 $writes 'metrics.sample_prompts=["a text that has no room left in 32 tokens"]'
check "a prompt that is too long" expect 65 "write one of 1 to 31"
learn none 1 $writes "$prompts" data.source=tokens
check "words need a tokenizer" expect 65 "has token ids only"

finish
