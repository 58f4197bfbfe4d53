#!/usr/bin/env bash
# Files of prompts: what comes of them, going on after a stop, and what is refused.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
run 1 train tests/regression/tiny.toml run.directory="$work/run" run.steps=1 \
  model.sequence=96 batch.global=2 optimizer.schedule.warmup=0 checkpoint.every=1
check "a model of bytes" test "$status" = 0
model=$work/run

cat >"$work/prompts.jsonl" <<'END'
{"prompt": "The license", "tokens": 20, "id": "a"}
{"prompt": "x", "samples": 3, "temperature": 1, "seed": 4, "tokens": 30}

{"prompt_tokens": [1, 2, 3], "temperature": 0.7, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.95}
{"prompt": "Apache License, Version 2.0, January 2004, and what follows", "tokens": 30, "logprobs": 2}
{"prompt": "no more than this", "repetition_penalty": 1.3, "tokens": 12, "id": {"n": 5}}
END
# batch OUT RANKS OPTION...
batch() {
  local out=$1 ranks=$2
  shift 2
  run "$ranks" generate "$model" --prompts "$work/prompts.jsonl" -o "$work/$out" \
    --temperature 0 --tokens 25 "$@"
}
batch all.jsonl 1
check "a batch" test "$status" = 0
check "has a line for each text" test "$(wc -l <"$work/all.jsonl")" = 7
check "in the order of the prompts" \
  diff <(grep -o '"index":[0-9]*,"sample":[0-9]*' "$work/all.jsonl" | tr -dc '0-9,\n') \
  <(printf '0,0\n1,0\n1,1\n1,2\n2,0\n3,0\n4,0\n')
check "says its rate" grep -q 'tokens/s' "$work/out"
check "samples differ" test "$(sed -n 2,4p "$work/all.jsonl" | grep -o '"tokens":.*"finish"' | sort -u | wc -l)" = 3
check "has log-probabilities" grep -q '"top_logprobs":\[\[\[' "$work/all.jsonl"
check "leaves no partial file" test ! -e "$work/all.jsonl.partial"
batch all.jsonl 1
check "the same command finds it whole" test "$status" = 0

# Neighbours, steps, blocks and stages change nothing.
batch other.jsonl 1 --texts 2 --step-tokens 128 --block 3
check "other neighbours" cmp "$work/other.jsonl" "$work/all.jsonl"
texts() { sed 's/,"request.*//; s/,"logprobs.*//' "$1"; }
batch stages.jsonl 2 --pipeline 2
check "two stages" cmp <(texts "$work/stages.jsonl") <(texts "$work/all.jsonl")
head -1 "$work/prompts.jsonl" >"$work/first.jsonl"
run 1 generate "$model" --prompts "$work/first.jsonl" -o "$work/alone.jsonl" --temperature 0 --tokens 25
check "alone" cmp <(head -1 "$work/all.jsonl") "$work/alone.jsonl"
run 1 generate "$model" --prompt "The license" --tokens 20 --temperature 0
check "one prompt on the command line gives the same text" \
  grep -qF "$(sed -n '1s/.*"text":"\([A-Za-z ]*\).*/\1/p' "$work/all.jsonl")" "$work/out"
run 2 generate "$model" --prompt "The license" --tokens 20 --temperature 0 --pipeline 2
mv "$work/out" "$work/staged"
run 1 generate "$model" --prompt "The license" --tokens 20 --temperature 0
check "one prompt on two stages" cmp "$work/out" "$work/staged"
for type in fp8 int8 bf16; do
  batch $type.jsonl 1 --cache-dtype $type
  check "a cache of $type" test "$(wc -l <"$work/$type.jsonl")" = 7
done

# A run that was stopped goes on: from whole lines and from a torn one.
lines() { awk 'NR == 2 || NR == 6 || NR == 1' "$work/all.jsonl"; }
lines >"$work/again.jsonl.partial"
head -c 40 <(tail -1 "$work/all.jsonl") >>"$work/again.jsonl.partial"
batch again.jsonl 1
check "goes on" grep -q 'behind 3 finished' "$work/out"
check "to the same bytes" cmp "$work/again.jsonl" "$work/all.jsonl"
timeout 600 "$TRIREME" generate "$model" --prompts "$work/prompts.jsonl" -o "$work/killed.jsonl" \
  --temperature 0 --tokens 25 --texts 1 >"$work/out" 2>&1 </dev/null &
for _ in $(seq 200); do [ -s "$work/killed.jsonl.partial" ] && break; sleep 0.02; done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
[ -e "$work/killed.jsonl" ] || batch killed.jsonl 1
check "a killed run ends with the same bytes" cmp "$work/killed.jsonl" "$work/all.jsonl"

# Lines and files of any length: a text of 17 MiB, with others behind it, and 5 GiB.
{ head -1 "$work/all.jsonl" | head -c 1; head -c 17M /dev/zero | tr '\0' ' '
  head -1 "$work/all.jsonl" | tail -c +2; } >"$work/long"
{ cat "$work/long"; lines | tail -2; } >"$work/long.jsonl.partial"
batch long.jsonl 1
check "goes on behind a long line" grep -q 'behind 3 finished' "$work/out"
check "keeps the long line" cmp "$work/long.jsonl" <(cat "$work/long"; tail -n +2 "$work/all.jsonl")
batch long.jsonl 1
check "finds a file with a long line whole" test "$status" = 0
echo '{}' >"$work/huge.jsonl.partial"
truncate -s 5G "$work/huge.jsonl.partial"
batch huge.jsonl 1
check "reads a long partial file" expect 65 'line 1 was made of other prompts'
mv "$work/huge.jsonl.partial" "$work/huge.jsonl"
batch huge.jsonl 1
check "reads a long file" expect 73 'is there, and is not what these prompts give'
rm -f "$work/huge.jsonl" "$work"/long*

# A file as some editors write it, with a byte order mark.
{ printf '\357\273\277'; cat "$work/prompts.jsonl"; } >"$work/marked.jsonl"
run 1 generate "$model" --prompts "$work/marked.jsonl" -o "$work/marked.out" \
  --temperature 0 --tokens 25
check "a byte order mark" cmp "$work/marked.out" "$work/all.jsonl"

# What is refused, with what was there left alone.
mkdir "$work/disk"
cp "$work/all.jsonl" "$work/kept"
batch all.jsonl 1 --chunk 7
check "other settings" expect 73 'remove it, or choose another -o'
lines >"$work/mixed.jsonl.partial"
batch mixed.jsonl 1 --chunk 7
check "a partial file of other settings" expect 65 'line 1 was made of other prompts'
check "which stays" cmp <(lines) "$work/mixed.jsonl.partial"
check "the output stays" cmp "$work/kept" "$work/all.jsonl"
# bad STATUS WORDS LINE: a file with a good line and this one.
bad() {
  { head -1 "$work/prompts.jsonl"; echo "$3"; } >"$work/bad.jsonl"
  run 1 generate "$model" --prompts "$work/bad.jsonl" -o "$work/none.jsonl"
  check "refuses $3" expect "$1" "line 2: .*$2"
  check "writes nothing" test ! -e "$work/none.jsonl"
}
bad 65 'ends too early' '{"prompt": "a"'
bad 65 'is no JSON: .*column 16' '{"prompt": "a",}'
bad 65 "number overflow parsing '1e400'" '{"prompt": "a", "temperature": 1e400}'
bad 65 'an object is expected' '[1, 2]'
bad 65 "'promt' is no field" '{"promt": "a"}'
bad 65 "the key 'tokens' comes twice" '{"prompt": "a", "tokens": 3, "tokens": 4}'
bad 65 "the key 'role' comes twice" '{"messages": [{"role": "user", "role": "system", "content": "a"}]}'
bad 65 'one of prompt, prompt_tokens and messages' '{"tokens": 3}'
bad 65 'one of prompt, prompt_tokens and messages' '{"prompt": "a", "prompt_tokens": [1]}'
bad 65 'the prompt is empty' '{"prompt": ""}'
bad 65 'prompt_tokens' '{"prompt_tokens": [1, 99999]}'
bad 65 'prompt_tokens' '{"prompt_tokens": [1, "a"]}'
bad 65 'temperature' '{"prompt": "a", "temperature": -1}'
bad 65 'tokens' '{"prompt": "a", "tokens": 0}'
bad 65 'tokens' '{"prompt": "a", "tokens": "many"}'
bad 65 'top_p' '{"prompt": "a", "top_p": 2}'
bad 65 'stop' '{"prompt": "a", "stop": [""]}'
bad 65 'stop' '{"prompt": "a", "stop": 5}'
bad 65 'no chat template' '{"messages": [{"role": "user", "content": "a"}]}'
bad 65 'leaves no room' "{\"prompt\": \"$(printf 'a%.0s' $(seq 96))\"}"
run 1 generate "$model" --prompts "$work/missing" -o "$work/none.jsonl"
check "no such file" expect 66 'there is no such file'
ln -s loop "$work/loop"
run 1 generate "$model" --prompts "$work/loop" -o "$work/none.jsonl"
check "a link to itself" expect 66 'there is no such file'
: >"$work/empty.jsonl"
run 1 generate "$model" --prompts "$work/empty.jsonl" -o "$work/none.jsonl"
check "no prompts" expect 65 'has no prompts'
run 1 generate "$model" --prompts "$work/prompts.jsonl"
check "no output named" expect 64 'needs -o'
run 1 generate "$model" --prompt a --texts 3
check "options of batches alone" expect 64 'goes with --prompts'
batch none.jsonl 1 --cache-bytes 1KiB
check "too small a cache" expect 78 'cache-bytes'
check "which leaves nothing" test ! -e "$work/none.jsonl.partial"
run 1 generate "$model" --prompts "$work/prompts.jsonl" -o "$work/disk"
check "a folder for the output" expect 73 'is no file: choose another -o'
batch none.jsonl 1 --cache-bytes lots
check "no size" expect 64 'a size such as'
batch none.jsonl 1 --cache-dtype fp4
check "no such type" expect 64 'is none of auto'
batch none.jsonl 1 --chunk 9 --step-tokens 8 --texts 2
check "a chunk above a step" expect 64 'does not fit'
batch none.jsonl 2 --pipeline 3
check "stages that ranks do not have" expect 78 'does not divide'
run 4 generate "$SOURCE/tests/reference/folders/qwen3_5" --prompts "$work/prompts.jsonl" \
  -o "$work/none.jsonl"
check "heads of linear attention that ranks lack" expect 78 'linear.key_heads = 2 cannot be split over 4'
# A disk that is full: lines that were written stay, and the same command goes on.
if mount -t tmpfs -o size=12k tmpfs "$work/disk" 2>/dev/null; then
  dd if=/dev/zero of="$work/disk/ballast" bs=1k count=8 2>/dev/null
  yes "$(sed -n 4p "$work/prompts.jsonl")" | head -30 >"$work/many.jsonl"
  fill() {
    run 1 generate "$model" --prompts "$work/many.jsonl" -o "$1" --temperature 0 --tokens 25
  }
  fill "$work/disk/out.jsonl"
  check "a full disk" expect 74 'cannot be written: No space left'
  check "keeps what was written" test -s "$work/disk/out.jsonl.partial"
  umount "$work/disk"
else
  echo "no file system of its own: a full disk is not tried"
fi
# Three stages, one by one and in a batch.
run 1 train tests/regression/tiny.toml run.directory="$work/deep" run.steps=1 model.layers=3 \
  model.sequence=96 batch.global=2 optimizer.schedule.warmup=0 checkpoint.every=1
deep() { run "$1" generate "$work/deep" --temperature 0 --tokens 25 "${@:2}"; }
deep 1 --prompt "The license"
mv "$work/out" "$work/one_stage"
deep 3 --pipeline 3 --prompt "The license"
check "one prompt on three stages" cmp "$work/out" "$work/one_stage"
deep 1 --prompts "$work/prompts.jsonl" -o "$work/deep1.jsonl"
deep 3 --pipeline 3 --prompts "$work/prompts.jsonl" -o "$work/deep3.jsonl"
check "a batch on three stages" cmp <(texts "$work/deep1.jsonl") <(texts "$work/deep3.jsonl")
check "has all texts" test "$(wc -l <"$work/deep3.jsonl")" = 7

# The same command after more training: its texts would be others.
run 1 train tests/regression/tiny.toml run.directory="$work/run" run.steps=2 \
  model.sequence=96 batch.global=2 optimizer.schedule.warmup=0 checkpoint.every=1
check "another step" test "$status" = 0
batch all.jsonl 1
check "texts of other weights" expect 73 'remove it, or choose another -o'
check "they stay" cmp "$work/kept" "$work/all.jsonl"
finish
