#!/usr/bin/env bash
# How fast ranks load a folder, beside dd on the same file, and what a rank holds at most.
# SPDX-License-Identifier: Apache-2.0
# Usage: loading.sh PROGRAM PEAK_MEMORY FOLDER [RANKS [GIGABYTES [ROUNDS]]]: makes a Llama
# of random numbers in fp32 in FOLDER, which it removes, and lets RANKS of the tensor axis
# evaluate a few tokens. The file leaves the page cache before each reading
# (posix_fadvise); what the machine below caches, it cannot empty.
set -eu
program=$1 peak=$2 folder=$3 ranks=${4:-4} gigabytes=${5:-4} rounds=${6:-3}
launch="mpirun --oversubscribe"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT

. "$(dirname "$0")/random_llama.sh"

out_of_cache() { dd if="$1" iflag=nocache count=0 status=none; }
now() { date +%s.%N; }

layers=$((gigabytes * 1000 / 206))
make_llama "$layers" 2048 5632 8192 "$folder/model"
make_llama 1 32 32 512 "$folder/none"
sync
"$program" tokenize --train 300 "$0" -o "$folder/tokenizer.json" >/dev/null
head -c 40 "$0" >"$folder/text"
"$program" tokenize "$folder/text" --tokenizer "$folder/tokenizer.json" -o "$folder/all.h5" >/dev/null
file="$folder/model/model.safetensors"
bytes=$(stat -c %s "$file")
echo "$(basename "$file"): $bytes bytes, $ranks ranks, $(nproc) processors"

# evaluate MODEL: seconds, and the most that a rank held, in MiB.
evaluate() {
  rm -f "$folder/peaks"
  local begin
  begin=$(now)
  $launch -n "$ranks" "$peak" "$folder/peaks" "$program" evaluate "$1" "$folder/all.h5" \
    --sequence 8 >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  awk -v a="$begin" -v b="$(now)" '{ if ($1 > most) most = $1 }
    END { printf "%.2f %.0f\n", b - a, most / 1024 }' "$folder/peaks"
}

echo "round  dd (s)  load (s)  load / dd rate  largest rank (MiB)  of nothing (MiB)"
for ((round = 1; round <= rounds; ++round)); do
  out_of_cache "$file"
  begin=$(now)
  dd if="$file" of=/dev/null bs=8M status=none
  disk=$(awk -v a="$begin" -v b="$(now)" 'BEGIN { print b - a }')
  read -r base least < <(evaluate "$folder/none")
  out_of_cache "$file"
  read -r whole most < <(evaluate "$folder/model")
  awk -v r="$round" -v d="$disk" -v w="$whole" -v b="$base" -v m="$most" -v l="$least" \
    'BEGIN { printf "%5d  %6.2f  %8.2f  %13.0f%%  %18d  %16d\n",
             r, d, w - b, 100 * d / (w - b), m, l }'
done
