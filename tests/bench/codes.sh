#!/usr/bin/env bash
# Tokens a second of one text from numbers and from codes, on a Llama of random numbers.
# SPDX-License-Identifier: Apache-2.0
# Usage: codes.sh PROGRAM FOLDER [THREADS [ROUNDS [LAYERS]]]: makes the model in FOLDER, which it
# removes. A layer has 51 million weights, 4 layers by default; the vocabulary is small, so
# that what is not quantized takes little time. A rate is that of 96 tokens: the time of 97 less
# that of 1, each the best of the rounds, in which all folders take turns. Of one thread (the
# default) it is the processor's time that counts, which others on the machine lengthen little.
set -eu
program=$1 folder=$2 threads=${3:-1} rounds=${4:-5} layers=${5:-4}
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=$threads

. "$(dirname "$0")/random_llama.sh"
train_llama "$program" "$folder" "$layers" 2048 16 5632 512 128
"$program" convert "$folder/run" "$folder/fp32" --dtype fp32 >"$folder/log" 2>&1
"$program" convert "$folder/run" "$folder/bf16" --dtype bf16 >"$folder/log" 2>&1
rm -rf "$folder/run"
for kind in nf4 int8 fp8; do
  for type in bf16 fp32; do
    "$program" convert "$folder/$type" "$folder/$kind-$type" --quantize "$kind" >"$folder/log" 2>&1
  done
done

# seconds FOLDER TOKENS WEIGHTS
seconds() {
  local taken TIMEFORMAT='%R %U %S'
  taken=$({ time "$program" generate "$1" --prompt-tokens 1 --tokens "$2" --temperature 0 \
    --weights "$3" >"$folder/log" 2>&1; } 2>&1) || { cat "$folder/log" >&2; exit 1; }
  awk -v threads="$threads" '{ print threads == 1 ? $2 + $3 : $1 }' <<<"$taken"
}

for ((round = 1; round <= rounds; ++round)); do
  for type in bf16 fp32; do
    for kind in numbers nf4 int8 fp8; do
      model=$kind-$type
      weights=codes
      [ "$kind" != numbers ] || { model=$type && weights=numbers; }
      for tokens in 1 97; do
        echo "$kind $type $tokens $(seconds "$folder/$model" "$tokens" "$weights")"
      done
    done
  done
done >"$folder/times"
echo "$layers layers, $threads threads, the best of $rounds rounds"
awk '{ key = $1 " x " $2; if (!(key in seen)) { seen[key] = ++n; keys[n] = key }
       at = key " " $3; if (!(at in best) || $4 < best[at]) best[at] = $4 }
     END { for (i = 1; i <= n; ++i)
             printf "%-16s %7.2f tokens/s\n", keys[i], 96 / (best[keys[i] " 97"] - best[keys[i] " 1"]) }' "$folder/times"
