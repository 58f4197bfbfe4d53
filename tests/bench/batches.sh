#!/usr/bin/env bash
# 64 prompts in a batch, one by one, and by transformers, in turn, on a small Llama.
# SPDX-License-Identifier: Apache-2.0
# Usage: batches.sh PROGRAM FOLDER [PYTHON [THREADS [ROUNDS [TYPES]]]]: makes the model of random
# numbers in FOLDER, which it removes: 8 layers, hidden 512, feed-forward 1376, 8 heads,
# vocabulary 8000. PYTHON has torch and transformers; without, or with "none", they are left
# out. Ours is all of the program, start and loading included, and beside it the rate that it
# prints; theirs is generate() alone. Of one thread (the default) seconds are the processor's,
# which others on the machine lengthen little (and of a batch, how many of them are the system's, mostly
# for memory that is touched for the first time), else those of the clock.
set -eu
program=$1 folder=$2 python=${3:-none} threads=${4:-1} rounds=${5:-3} types=${6:-fp32 bf16}
here=$(dirname "$0")
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=$threads

. "$here/random_llama.sh"
train_llama "$program" "$folder" 8 512 8 1376 8000 256
for type in $types; do
  "$program" convert "$folder/run" "$folder/$type" --dtype "$type" >"$folder/log" 2>&1
done

# Lengths as they come; all alike; short prompts with long texts.
prompts() { # AWK FUNCTIONS length_of(i), new_of(i)
  awk "$1"' BEGIN {
    for (i = 0; i < 64; ++i) {
      line = ""
      for (j = 0; j < length_of(i); ++j) line = line (j ? "," : "") (7919 * i + 104729 * j + 13) % 8000
      printf "{\"prompt_tokens\": [%s], \"tokens\": %d}\n", line, new_of(i)
    } }'
}
prompts 'function length_of(i) { return 8 + 37 * i % 113 }
  function new_of(i) { return 2 ^ (3 + i % 5) }' >"$folder/mixed.jsonl"
prompts 'function length_of(i) { return 32 } function new_of(i) { return 32 }' >"$folder/alike.jsonl"
prompts 'function length_of(i) { return 16 } function new_of(i) { return 128 }' >"$folder/short.jsonl"

# ours KIND TYPE OUT OPTION...: seconds, the system's, and tokens a second as it prints them.
ours() {
  local kind=$1 type=$2 out=$3 taken TIMEFORMAT='%R %U %S'
  shift 3
  rm -f "$folder/$out"
  taken=$({ time "$program" generate "$folder/$type" --prompts "$folder/$kind.jsonl" \
    -o "$folder/$out" --temperature 0 "$@" >"$folder/log" 2>&1; } 2>&1) ||
    { cat "$folder/log" >&2; exit 1; }
  awk -v threads="$threads" -v rate="$(sed -n 's/.* steps, \([0-9.]*\) tokens\/s.*/\1/p' "$folder/log")" \
    '{ print threads == 1 ? $2 + $3 : $1, $3, rate }' <<<"$taken"
}

grep -m1 'model name' /proc/cpuinfo || true
for kind in mixed alike short; do
  awk -F '[][]' -v kind=$kind '{ prompt += split($2, a, ","); sub(/.*: /, "", $3); new += $3 }
    END { print kind ": 64 prompts, " prompt " tokens, " new " new ones" }' "$folder/$kind.jsonl"
done
printf '%-6s %-5s %5s %9s %6s %8s %11s %8s %7s %13s %7s %s\n' kind type round 'batch (s)' system tokens/s \
  'one by one' tokens/s ratio 'transformers' ratio 'same texts'
for ((round = 1; round <= rounds; ++round)); do
  for kind in mixed alike short; do
    for type in $types; do
      read -r batch system rate < <(ours $kind "$type" batch.jsonl)
      read -r alone _ slow < <(ours $kind "$type" alone.jsonl --texts 1)
      cmp "$folder/batch.jsonl" "$folder/alone.jsonl"
      peer="- - -"
      [ "$python" = none ] || peer=$("$python" "$here/peer_generate.py" "$folder/$type" \
        "$folder/$kind.jsonl" "$folder/batch.jsonl" "$type" "$threads" 2>"$folder/log") ||
        { cat "$folder/log" >&2; exit 1; }
      read -r clock processor same <<<"$peer"
      [ "$threads" != 1 ] || clock=$processor
      awk -v k=$kind -v t="$type" -v n=$round -v b="$batch" -v y="$system" -v r="$rate" -v a="$alone" -v s="$slow" \
        -v p="$clock" -v same="$same" 'BEGIN {
          printf "%-6s %-5s %5d %9.2f %6.2f %8.0f %11.2f %8.0f %7.2f %13s %7s %s\n", k, t, n, b, y, r, a, s, a / b,
                 p, p == "-" ? "-" : sprintf("%.2f", p / b), same }'
    done
  done
done
