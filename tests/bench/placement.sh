#!/usr/bin/env bash
# A model of three times a control group's memory, its weights on disk: rate and bits.
# SPDX-License-Identifier: Apache-2.0
# Usage: placement.sh PROGRAM FOLDER [GIGABYTES [ROUNDS [PASSES]]]: makes a Llama of random
# numbers in fp32 in FOLDER, which it removes, and generates tokens in a control group whose limit,
# page cache included, is a third of the model's bytes (as root; groups of version 1 or 2). A rate is
# that of PASSES tokens: the time and the bytes read from the disk of so many and one, less those of
# one. In turn dd reads the file with direct I/O, one and four at a time, each its quarter, and
# through the page cache. What the machine below caches, it cannot empty. Logits are those of a group without a limit, to the bit (h5diff).
set -eu
program=$1 folder=$2 gigabytes=${3:-3} rounds=${4:-3} passes=${5:-4}
. "$(dirname "$0")/random_llama.sh"
mkdir -p "$folder"
group=""
end() {
  rm -rf "$folder"
  [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
}
trap end EXIT

make_llama $((gigabytes * 1000 / 206)) 2048 5632 8192 "$folder/model"
sync
file=$folder/model/model.safetensors
bytes=$(stat -c %s "$file")
limit=$((bytes / 3))
if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
  group=/sys/fs/cgroup/memory/trireme-placement-$$
  mkdir "$group"
  echo $limit >"$group/memory.limit_in_bytes"
else
  echo +memory >/sys/fs/cgroup/cgroup.subtree_control
  group=/sys/fs/cgroup/trireme-placement-$$
  mkdir "$group"
  echo $limit >"$group/memory.max"
fi
empty_cache() { sync && echo 3 >/proc/sys/vm/drop_caches; }

# in_group COMMAND...: runs it there; the bytes that it read from the disk are in FOLDER/read.
in_group() {
  bash -c 'echo $$ >"$1/cgroup.procs"; read=$2; shift 2; "$@"; status=$?
    sed -n "s/^read_bytes: //p" /proc/$$/io >"$read"; exit $status' - "$group" "$folder/read" "$@" \
    2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
}
# Memory for weights that stay and pass; the program and the page cache need some too.
place=(--device-map auto --max-memory "cpu=$((limit * 8 / 10))")
generate() { # TOKENS, and where the weights are
  local tokens=$1
  shift
  "$@" "$program" generate "$folder/model" --prompt-tokens 5 --tokens "$tokens" --temperature 0 \
    "${options[@]}"
}
# timed TOKENS: seconds and bytes.
timed() {
  local begin
  empty_cache
  begin=$(date +%s.%N)
  generate "$1" in_group >"$folder/placed"
  echo "$begin $(date +%s.%N) $(cat "$folder/read")" | awk '{ print $2 - $1, $3 }'
}

"$program" tokenize --train 300 "$0" -o "$folder/tokenizer.json" >/dev/null
head -c 40 "$0" >"$folder/text"
"$program" tokenize "$folder/text" --tokenizer "$folder/tokenizer.json" -o "$folder/all.h5" >/dev/null
evaluate() { # OUT COMMAND...
  local out=$1
  shift
  "$@" "$program" evaluate "$folder/model" "$folder/all.h5" --sequence 8 --logits "$out" \
    "${options[@]}" >/dev/null
}
options=()
generate $((passes + 1)) command >"$folder/whole" 2>/dev/null
evaluate "$folder/whole.h5" command 2>/dev/null
options=("${place[@]}")
evaluate "$folder/placed.h5" in_group
h5diff "$folder/whole.h5" "$folder/placed.h5" && echo "logits: the same to the bit"

echo "$bytes bytes, a limit of $limit, $passes passes"
echo "MB/s: round  dd direct  four of them  dd cached  placed  of direct  of four  MB a pass"
parts=(x x x "")  # the last goes on to the end
for ((round = 1; round <= rounds; ++round)); do
  rate() { awk -v b="$bytes" -v s="$1" -v e="$2" 'BEGIN { print b / 1e6 / (e - s) }'; }
  empty_cache
  begin=$(date +%s.%N)
  dd if="$file" of=/dev/null bs=8M iflag=direct status=none
  direct=$(rate "$begin" "$(date +%s.%N)")
  empty_cache
  begin=$(date +%s.%N)
  part=$((bytes / 4 / (8 << 20)))
  for i in 0 1 2 3; do
    dd if="$file" of=/dev/null bs=8M iflag=direct skip=$((i * part)) ${parts[i]:+count=$part} status=none &
  done
  wait
  four=$(rate "$begin" "$(date +%s.%N)")
  read -r one first < <(timed 1)
  read -r all every < <(timed $((passes + 1)))
  cmp "$folder/placed" "$folder/whole"
  empty_cache
  begin=$(date +%s.%N)
  dd if="$file" of=/dev/null bs=8M status=none
  cached=$(rate "$begin" "$(date +%s.%N)")
  awk -v r="$round" -v d="$direct" -v f="$four" -v c="$cached" -v t="$one $all" -v b="$first $every" \
    -v n="$passes" 'BEGIN {
      split(t, s, " "); split(b, m, " "); read = (m[2] - m[1]) / 1e6; rate = read / (s[2] - s[1])
      printf "%11d  %9.0f  %12.0f  %9.0f  %6.0f  %8.0f%%  %6.0f%%  %9.0f\n", r, d, f, c, rate, 100 * rate / d,
             100 * rate / f, read / n }'
done
grep 'each pass' "$folder/log"
