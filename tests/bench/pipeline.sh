#!/usr/bin/env bash
# Batches on two stages beside one rank with two threads, and two tensor ranks, in turn.
# SPDX-License-Identifier: Apache-2.0
# Usage: pipeline.sh PROGRAM FOLDER [ROUNDS [TYPES]]: makes the Llama of random numbers of
# batches.sh in FOLDER, which it removes, and runs 64 prompts on one rank with one thread, on one with
# two, on two stages (--pipeline 2) and on two tensor ranks of one thread each. Rates are those that the
# program prints: new tokens by the clock, prompts included, start and loading not. Texts on two
# stages must be those of one rank, byte by byte. MPIEXEC (mpirun) starts ranks.
set -eu
program=$1 folder=$2 rounds=${3:-3} types=${4:-fp32 bf16}
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT

. "$(dirname "$0")/random_llama.sh"
OMP_NUM_THREADS=1 train_llama "$program" "$folder" 8 512 8 1376 8000 256
for type in $types; do
  "$program" convert "$folder/run" "$folder/$type" --dtype "$type" >"$folder/log" 2>&1
done
for kind in "alike 32 32" "short 16 128"; do
  read -r name length new <<<"$kind"
  awk -v length_of="$length" -v new_of="$new" 'BEGIN {
    for (i = 0; i < 64; ++i) {
      line = ""
      for (j = 0; j < length_of; ++j) line = line (j ? "," : "") (7919 * i + 104729 * j + 13) % 8000
      printf "{\"prompt_tokens\": [%s], \"tokens\": %d}\n", line, new_of
    } }' >"$folder/$name.jsonl"
done

# rate RANKS THREADS KIND TYPE OUT [OPTION...]: tokens a second.
rate() {
  local ranks=$1 threads=$2 kind=$3 type=$4 out=$5
  shift 5
  local start=()
  [ "$ranks" = 1 ] || start=("${MPIEXEC:-mpirun}" -n "$ranks")
  rm -f "$folder/$out"
  OMP_NUM_THREADS=$threads ${start[@]+"${start[@]}"} "$program" generate "$folder/$type" \
    --prompts "$folder/$kind.jsonl" -o "$folder/$out" --temperature 0 "$@" >"$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; exit 1; }
  sed -n 's/.* steps, \([0-9.]*\) tokens\/s.*/\1/p' "$folder/log"
}

# Texts without the digest of what decided them, in which the number of stages counts.
texts() { sed 's/,"request":"[^"]*"//' "$folder/$1"; }

printf '%-6s %-5s %5s %11s %13s %11s %14s %16s\n' kind type round '1 thread' '2 threads' '2 stages' \
  '2 tensor ranks' 'stages / threads'
for ((round = 1; round <= rounds; ++round)); do
  for kind in alike short; do
    for type in $types; do
      one=$(rate 1 1 "$kind" "$type" one.jsonl)
      two=$(rate 1 2 "$kind" "$type" two.jsonl)
      stages=$(rate 2 1 "$kind" "$type" stages.jsonl --pipeline 2)
      tensor=$(rate 2 1 "$kind" "$type" tensor.jsonl)
      cmp <(texts one.jsonl) <(texts two.jsonl)
      cmp <(texts one.jsonl) <(texts stages.jsonl)
      awk -v k="$kind" -v t="$type" -v n="$round" -v one="$one" -v two="$two" -v s="$stages" -v p="$tensor" \
        'BEGIN { printf "%-6s %-5s %5d %11.0f %13.0f %11.0f %14.0f %16.2f\n", k, t, n, one, two, s, p, s / two }'
    done
  done
done
