#!/usr/bin/env bash
# What a run reports of traffic, memory and idle time, against the plan that it prints.
# SPDX-License-Identifier: Apache-2.0
# It prints the plan before it starts.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml

# Group, collective, calls and bytes of the N-th table of traffic; a measured one has six
# more words: time, bus bandwidth and exposed time, all of them known.
table() {
  awk -v wanted="$1" -v extra="$2" '
    /^traffic / { ++count; on = count == wanted; next }
    !/^  / { on = 0 }
    on && !/^  group/ { NF -= extra; $1 = $1; print }' "$work/out"
}
same_traffic() {
  table 1 0 >"$work/planned"
  table 2 6 >"$work/measured"
  test -s "$work/planned" && diff "$work/planned" "$work/measured"
}
# block WORD: the line that begins with it, and those that go on with it, as one.
block() { awk -v word="$1" '/^[^ ]/ { on = $1 == word } on' "$work/out" | tr -s '\n ' '  '; }
# Bytes by class, without those that a plan does not know; of the table the first column.
memory() {
  grep -oE '(weights|gradients|optimizer|activations|communication|data|offloaded) [0-9.]+ [KM]?i?B' |
    grep -v ' 0 B'
}
same_memory() {
  block memory | memory >"$work/planned"
  block peak | memory >"$work/measured"
  test -s "$work/planned" && diff "$work/planned" "$work/measured"
}

chat_tokenizer "$work/tokenizer"
for i in $(seq 12); do
  echo "{\"prompt\":\"$i + $i =\",\"chosen\":\" $((2 * i))\",\"rejected\":\" no\"}"
done >"$work/pairs.jsonl"
pairs="train.objective=dpo data.source=preference data.paths=[\"$work/pairs.jsonl\"]"
pairs+=" data.validation_paths=[\"$work/pairs.jsonl\"] metrics.validate_every=3"
pairs+=" data.tokenizer=$work/tokenizer model.vocabulary=300 model.sequence=96"
while read -r name keys; do
  # shellcheck disable=SC2086
  run 4 train $deck run.directory="$work/$name" run.steps=6 $keys
  check "$name trains" test "$status" = 0
  check "$name: planned traffic" same_traffic
  check "$name: planned memory" same_memory
  for key in calls bytes seconds bus_bytes_per_second exposed_seconds; do
    grep -o "\"$key\": [0-9]*" "$work/$name/metrics.jsonl" >"$work/$key"
    check "$name: $key in the metrics" test -s "$work/$key"
  done
done <<CASES
data
zero1 parallel.sharding_strategy=ZERO1
grad_op parallel.sharding_strategy=SHARD_GRAD_OP
full parallel.sharding_strategy=FULL_SHARD
hybrid parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=2
offload parallel.sharding_strategy=FULL_SHARD parallel.offload=weights
activations parallel.offload_activations=true recompute.policy=full batch.micro=1
tensor parallel.tensor=2 parallel.sequence=true
context parallel.context=2 parallel.sharding_strategy=FULL_SHARD
validation batch.micro=3 metrics.validate_every=3 data.validation_paths=["README.md"] metrics.sample_every=3 metrics.sample_prompts=["To"]
packed parallel.context=2 data.packing=concatenate data.end_token=10
pipeline parallel.pipeline=2 parallel.tensor=2
validated_pipeline parallel.pipeline=2 metrics.validate_every=3 data.validation_paths=["README.md"]
pairs $pairs
pairs_pipeline $pairs parallel.pipeline=2
CASES

check "idle shares of both stages" grep -qE '"idle_share": \[[^,]*, [^,]*\], "idle_share_mean": [^,]*, "live_microbatches": 2' \
  "$work/pipeline/metrics.jsonl"
check "a table of the pipeline" grep -qE '^  1 +1 +[0-9.]+ % +[0-9.]+ % +1$' "$work/out"
check "gathered units" grep -q '"gathered_units": 2' "$work/full/metrics.jsonl"
check "offloaded bytes" grep -q '"offload_bytes_to_host": [1-9]' "$work/offload/metrics.jsonl"
check "bytes of offloaded activations" grep -qE '"activation_bytes_to_host": [1-9].*"activation_bytes_to_device": [0-9]' \
  "$work/activations/metrics.jsonl"
check "no idle share without a pipeline" test -z "$(grep idle_share "$work/data/metrics.jsonl")"

# Experts with memory for an even load, and weights' gradients that are put off: rounds take
# the memory that was planned with one.
run 4 train $deck run.directory="$work/rounds" run.steps=4 model.architecture=mixtral \
  model.moe.experts=8 parallel.pipeline=2 parallel.schedule=zb_h1 parallel.expert=2 \
  parallel.expert_memory=1.0 parallel.sharding_strategy=ZERO1
check "rounds: trains" test "$status" = 0
check "rounds: planned memory" same_memory
check "rounds in the metrics" grep -qE '"expert_rounds_mean": 1\.[0-9]+, "expert_rounds_max": [2-9]' \
  "$work/rounds/metrics.jsonl"
check "rounds in the log" grep -qE 'rounds 1\.[0-9]+, most [2-9]' "$work/out"
check "no rounds without a bound" test -z "$(grep expert_rounds "$work/data/metrics.jsonl")"
finish
