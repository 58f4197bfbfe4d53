#!/usr/bin/env bash
# What `train --check` says of 20 good and 20 bad decks is what their runs do.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=$SOURCE/tests/regression/tiny.toml
export OMP_NUM_THREADS=1
moe="model.architecture=mixtral model.moe.experts=4 model.moe.top_k=2"

# Ranks, and what the tiny deck is changed by.
good=(
  "1"
  "1 model.architecture=gpt2 model.kv_heads=4 precision.compute=fp32"
  "1 model.architecture=gemma2 precision.compute=bf16"
  "1 model.architecture=qwen3 precision.compute=fp16"
  "1 precision.compute=fp8 precision.recipe=te_current"
  "1 recompute.policy=full batch.micro=4"
  "1 optimizer.name=muon"
  "1 optimizer.name=sgd optimizer.weight_decay=0"
  "1 adapter.rank=4"
  "2 adapter.rank=4 precision.compute=bf16 parallel.sharding_strategy=FULL_SHARD"
  "2 parallel.sharding_strategy=ZERO1 parallel.offload=optimizer"
  "2 parallel.sharding_strategy=FULL_SHARD precision.compute=bf16"
  "2 parallel.tensor=2 parallel.sequence=true"
  "2 parallel.context=2 precision.compute=fp32"
  "2 parallel.pipeline=2 parallel.schedule=zb_h1"
  "2 batch.global=3"
  "3 parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=3 checkpoint.async=true checkpoint.every=1"
  "4 parallel.tensor=2 parallel.pipeline=2 parallel.schedule=1f1b"
  "4 $moe parallel.expert=2"
  "4 parallel.offload_activations=true recompute.policy=full checkpoint.every=1 checkpoint.keep=1"
)

# The status with which a deck ends, ranks, words of the message, and what changes the deck.
bad=(
  "65|1|model.heads|model.heads=5"
  "64|1|model.hidden|model.hiden=64"
  "64|1|between 0 and|optimizer.learning_rate=-1"
  "64|1|did you mean|precision.compute=fp7"
  "78|2|batch.global|batch.global=1"
  "65|2|parallel.expert|parallel.expert=2"
  "65|4|parallel.tensor|parallel.tensor=3 batch.micro=3"
  "78|2|parallel.tensor|parallel.tensor=4"
  "65|2|parallel.schedule|parallel.pipeline=2 parallel.schedule=dualpipe_v batch.micro=12"
  "65|1|recompute.pieces|recompute.policy=selective"
  "66|1|nothing-here|data.paths=[\"nothing-here.txt\"]"
  "66|1|nothing-here|checkpoint.resume=nothing-here"
  "66|1|nothing-here|model.from=nothing-here"
  "65|1|model.sequence|model.sequence=1000000"
  "65|1|adapter.targets|adapter.rank=4 adapter.targets=[\"no_such_module\"]"
  "65|1|batch.micro|batch.micro=24"
  "65|2|parallel.context|parallel.context=2 parallel.context_method=ulysses model.kv_heads=1 model.heads=1"
  "78|2|does not fit|model.hidden=2048 model.feed_forward=8192 model.layers=8 memory"
  "78|1|does not fit|model.sequence=512 batch.micro=12 model.hidden=512 memory"
  "78|2|does not fit|parallel.tensor=2 model.hidden=1024 model.layers=8 memory"
)

# both RANKS WORDS...: checks a deck and runs it, with 100 MiB for the job where "memory" is
# among the words. Sets checked, ran, and, of their errors, said and says; and the memory that each plans
# (planned and plans), with the classes of which the run holds something else.
both() {
  local ranks=$1 words=() word
  shift
  unset SLURM_MEM_PER_NODE
  for word in "$@"; do
    if [ "$word" = memory ]; then export SLURM_MEM_PER_NODE=100; else words+=("$word"); fi
  done
  words+=("run.steps=4" "run.directory=$work/run")
  rm -rf "$work/run"
  run "$ranks" train "$deck" --check "${words[@]}"
  checked=$status good_words=$(grep -c 'the deck is good' "$work/out")
  said=$(grep 'trireme: error:' "$work/out")
  planned=$(sed -nE 's/^memory +total ([0-9.]+ [KMG]?i?B) .*/\1/p' "$work/out")
  run "$ranks" train "$deck" "${words[@]}"
  ran=$status says=$(grep "trireme: error:" "$work/out" | sed "s,error: rank 0:,error:,")
  plans=$(awk '$1 == "total" && NF == 5 { print $2, $3 }' "$work/out")
  others=$(awk '/^  (weights|gradients|optimizer|activations) .*B$/ && $2 $3 != $4 $5' "$work/out")
}

for line in "${good[@]}"; do
  # shellcheck disable=SC2086  # words
  both $line
  check "good: $line" test "$checked.$good_words" = 0.1
  check "good: $line: it runs" test "$ran" = 0
  check "good: $line: memory as planned" test -n "$planned" -a "$planned" = "$plans" -a -z "$others"
done
check "20 good decks" test ${#good[@]} = 20

for line in "${bad[@]}"; do
  IFS='|' read -r wanted ranks text change <<<"$line"
  # shellcheck disable=SC2086  # words
  both "$ranks" $change
  check "bad: $change: the status" test "$checked.$ran" = "$wanted.$wanted"
  check "bad: $change" expect "$wanted" "$text"
  check "bad: $change: in the same words" test "$said" = "$says"
  check "bad: $change: no step was taken" test ! -e "$work/run/metrics.jsonl"
done
check "20 bad decks" test ${#bad[@]} = 20

# Texts are known once they are read: before the model takes memory.
yes '1 2 3 4 5 6 7 8 9 0' | head -c 6000000 >"$work/digits.txt"
mkdir "$work/tokenizer"
cp "$SOURCE/tests/reference/tokenizers/llama3.json" "$work/tokenizer/tokenizer.json"
echo '{"eos_token":"<|end|>"}' >"$work/tokenizer/tokenizer_config.json"
texts="model.vocabulary=900 data.source=text data.paths=[\"$work/digits.txt\"] data.tokenizer=$work/tokenizer"
run 1 plan "$deck" $texts
check "a plan says that it reads no texts" grep -q '^sources   texts are read whole' "$work/out"
both 1 $texts
check "texts that fit" test "$checked.$ran" = 0.0
run 1 train "$deck" --check $texts run.directory="$work/run"
check "texts are counted" grep -qE '^sources   2[0-9]\.[0-9]+ MiB of tokens' "$work/out"
export SLURM_MEM_PER_NODE=64
run 1 train "$deck" --check $texts run.directory="$work/texts"
check "texts that do not fit: checked" expect 78 "tokens and documents"
run 1 train "$deck" $texts run.directory="$work/texts"
check "texts that do not fit: run" expect 78 "tokens and documents"
check "texts that do not fit: no step was taken" test ! -e "$work/texts/metrics.jsonl"
run 1 train "$deck" --check run.directory="$work/texts"
check "it is the texts that do not fit" test "$status" = 0
unset SLURM_MEM_PER_NODE

# refused TEXT WORDS...: both a check and a run, with status 73 and this text.
refused() {
  local text=$1
  shift
  run 2 train "$deck" --check run.directory="$work/run" "$@"
  check "checked: $text" expect 73 "$text"
  run 2 train "$deck" run.directory="$work/run" "$@"
  check "run: $text" expect 73 "$text"
}
rm -rf "$work/run"
mkdir "$work/run"
exec 9>"$work/run/lock"
flock 9
refused "run/lock is held by"
exec 9>&-
run 2 train "$deck" --check run.directory="$work/run"
check "a lock that nobody holds" test "$status" = 0
check "no lock is made" test "$(ls -A "$work/run")" = lock
run 1 train "$deck" --check run.directory=/proc/run
check "a folder that only looks writable" expect 73 "/proc/run"
run 1 train "$deck" run.directory=/proc/run
check "a folder that only looks writable: the run" expect 73 "/proc/run"
copies="checkpoint.partner=1 checkpoint.partner_directory"
refused "/proc: no folder can be made in it" $copies=/proc
refused "/nothing/here: there is no such folder" $copies=/nothing/here
refused "parallel.offload_directory = \"/proc\"" parallel.sharding_strategy=ZERO1 parallel.offload=disk \
  parallel.offload_directory=/proc
run 2 train "$deck" --check run.directory="$work/run" $copies="$work"
check "copies: nothing is made" test "$status.$(ls -d "$work"/trireme-* 2>/dev/null)" = 0.
finish
