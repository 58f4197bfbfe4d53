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
check "and for TensorBoard" grep -qa 'samples/3' "$work"/writes/events.out.tfevents.*
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

# 2. A batch that grows, by tokens: 2 sequences of 32 in steps 1 and 2, 6, then 12.
ramp='batch.ramp=["2 until 100","6 until 600"]'
schedule='optimizer.schedule.unit=tokens optimizer.schedule.warmup=128 optimizer.schedule.decay=1000'
grow() { # NAME RANKS OPTION...
  learn "$@" "$ramp" 'batch.sequence_ramp=["8 until 400"]' $schedule batch.micro=1
}
grow grown 1 run.steps=8 checkpoint.every=8
check "tokens of a step follow the ramp" [ "$(field "$work/grown/metrics.jsonl" tokens | tr '\n' ' ')" = \
  "64 128 320 512 704 1088 1472 1856 " ]
check "said in the log" grep -q 'step 6  the batch has 12 sequences from now on' "$work/out"
rates() { field "$work/$1/metrics.jsonl" learning_rate; }
check "warm-up in tokens ends in step 2" [ "$(rates grown | sed -n 2p)" = 0.003 ]
for stop in 1 4; do
  grow resumed$stop 1 run.steps=8 checkpoint.every=$stop debug.fault=kill@$((stop + 1))@0
  grow resumed$stop 1 run.steps=8 checkpoint.every=8
  check "a resume inside the ramp goes on to the bit" identical grown resumed$stop
done
for mesh in parallel.pipeline=2 parallel.context=2 parallel.tensor=1; do
  grow "grown $mesh" 2 run.steps=8 "$mesh"
  field "$work/grown/metrics.jsonl" loss >"$work/losses"
  field "$work/grown $mesh/metrics.jsonl" loss >"$work/others"
  check "the same losses with $mesh on two ranks" \
    close_values "$work/losses" "$work/others" 1e-9
done
experts='model.architecture=mixtral model.moe.experts=4 model.moe.top_k=2 model.moe.aux_loss=1'
constant='optimizer.schedule.name=constant optimizer.schedule.warmup=0 optimizer.learning_rate=0.01'
learn few 1 $experts $constant batch.global=2 run.steps=2 batch.micro=1
learn more 1 $experts $constant 'batch.ramp=["2 until 100"]' run.steps=3 batch.micro=1
field "$work/few/metrics.jsonl" loss >"$work/losses"
field "$work/more/metrics.jsonl" loss | head -2 >"$work/others"
check "steps of a ramp are those of a smaller batch, with experts" \
  cmp "$work/losses" "$work/others"
learn few 4 'batch.ramp=["2 until 100"]'
check "a ramp that leaves data ranks without work" expect 78 "4 data ranks: write at least 4"
learn indivisible 1 batch.micro=2 'batch.ramp=["3 until 100"]'
check "a ramp that is no number of microbatches" expect 65 "does not divide: write a multiple of 2"

# 3. What a run trains on.
printf 'One text.' >"$work/a"
printf 'And another, which is longer.' >"$work/b"
show() { run 1 inspect $deck "data.paths=[\"$work/a\",\"$work/b\"]" "$@"; }
shows() { [ "$status" = 0 ] && grep -qF -- "$1" "$work/out"; }
show data.packing=best_fit model.sequence=44
check "documents of a row, with what is no target" shows '[0] {A}nd another, which is longer.<end>'
check "the next begins behind it" shows '[30] {O}ne text.<end>'
check "padding" shows '[40] {5 places of padding}'
check "no colours for a pipe" grep -qv $'\x1b' "$work/out"
show data.source=blend 'data.paths=[]' "data.blend=[\"3 bytes $work/a\",\"1 bytes $work/b\"]" \
  model.sequence=4 --step 2 --row 1
check "shares of a blend" grep -Eq 'bytes .*/a  75.00 % +2 +90.00' "$work/out"
check "a row of a later step" shows 'step 2, row 1 of 12: '
show --verify
check "a deck has no digests" expect 64 "does not go with a deck"
show --step 21
check "a step behind the last" expect 64 "--step"

finish
