#!/usr/bin/env bash
# Weights in memory and on disk: the same bits, in less memory, and what is refused.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"

# Logits of small models of several families, from the disk, on stages, in part.
for name in llama gpt2 gemma2 mixtral deepseek_v3 qwen3_5 qwen3_fp8; do
  run 1 evaluate $name tokens.h5 --logits "$work/$name.h5"
  check "$name in memory" test "$status" = 0
  run 1 evaluate $name tokens.h5 --logits "$work/placed.h5" --max-memory cpu=0
  check "$name from the disk" grep -q 'blocks 0 to .* disk' "$work/out"
  check "$name has the same logits" "$H5_COMPARE" "$work/placed.h5" "$work/$name.h5" 0
done
echo '{"": "disk", "model.norm": "cpu", "model.layers.1": "cpu"}' >"$work/map.json"
run 2 evaluate llama tokens.h5 --logits "$work/placed.h5" --pipeline 2 --device-map "$work/map.json"
check "two stages with a map" test "$status" = 0
check "on two stages the same logits" "$H5_COMPARE" "$work/placed.h5" "$work/llama.h5" 0
run 1 generate llama --prompt-tokens 5,6,7 --tokens 9 --temperature 0
mv "$work/out" "$work/text"
for how in "--max-memory cpu=0" "--device-map $work/map.json" "--device-map auto --pipeline 1"; do
  "$TRIREME" generate llama --prompt-tokens 5,6,7 --tokens 9 --temperature 0 $how \
    >"$work/placed" 2>"$work/out" </dev/null
  check "the same text: $how" cmp "$work/placed" "$work/text"
done
check "all in memory" grep -q 'no weights are brought' "$work/out"

# A dry run: the table alone, and nothing is written.
run 1 evaluate llama tokens.h5 --logits "$work/c.h5" --dry-run
check "without limits all lies in memory" grep -q 'no weights are brought' "$work/out"
check "and no logits are written" test ! -e "$work/c.h5"

# What is refused. refused STATUS WORDS OPTION...
refused() {
  local code=$1 words=$2
  shift 2
  run 1 generate llama --prompt-tokens 5 --tokens 2 "$@"
  check "refuses $*" expect "$code" "$words"
}
map() { printf '%s' "$1" >"$work/bad.json"; refused 65 "$2" --device-map "$work/bad.json"; }
map '{' 'is no JSON'
map '' 'is no JSON'
map '{}' 'places nothing'
map '{"": "ram"}' 'which is no place'
map '{"": 0}' 'computes on CPUs'
map '{"model": "cpu"}' "no place for 'lm_head.weight'"
map '{"": "cpu", "model.layers.9": "disk"}' 'no part of the model'
map '{"": "cpu", "model.layers.0.mlp": "disk"}' 'block 0 lies together'
refused 64 'none of auto' --device-map blanced
refused 66 'no such file' --device-map "$work/none.json"
ln -s loop.json "$work/loop.json"
refused 66 'no such file' --device-map "$work/loop.json"
refused 64 'a list such as' --max-memory lots
refused 64 'a size such as' --max-memory cpu=lots
refused 64 'twice' --max-memory cpu=1,cpu=2
refused 64 'has no limit' --max-memory disk=1GiB
refused 64 'computes on CPUs' --max-memory gpu0=1GiB
refused 64 'a list such as' --max-memory cpu=1GiB,
echo '{"": "cpu"}' >"$work/all.json"
refused 78 'max-memory allows' --device-map "$work/all.json" --max-memory cpu=1KiB
run 2 generate llama --prompt-tokens 5 --pipeline 2 --device-map "$work/none.json"
check "on two ranks one message" expect 66 'no such file'
# A file that ends while it is read.
cp -r llama "$work/cut"
"$TRIREME" generate "$work/cut" --prompt-tokens 5 --tokens 400 --max-memory cpu=0 --temperature 0 \
  >"$work/out" 2>&1 </dev/null &
check "weights that vanish" bash -c '
  for _ in $(seq 500); do grep -q "each pass" "$0/out" && break; sleep 0.01; done
  truncate -s 2000 "$0/cut/model.safetensors"' "$work"
wait $!
status=$?
[ "$status" = 0 ] || check "are one message" expect 65 'model.safetensors'

# A model three times as large as its limit: 50 MB of weights, of which 16 may be held.
cat >"$work/deck.toml" <<'DECK'
run.steps = 1
model = {layers = 12, hidden = 256, heads = 4, feed_forward = 1024, vocabulary = 300, sequence = 16}
batch = {global = 1, micro = 1}
data.source = "synthetic"
optimizer = {name = "sgd", learning_rate = 1e-3}
DECK
run 1 train "$work/deck.toml" run.directory="$work/large"
check "a larger model" test "$status" = 0
printf '{"prompt_tokens": [%s]}\n' 5,6,7 8,9 1 >"$work/prompts.jsonl"
run 1 generate "$work/large" --prompts "$work/prompts.jsonl" -o "$work/a.jsonl" --tokens 9 --temperature 0
run 1 generate "$work/large" --prompts "$work/prompts.jsonl" -o "$work/b.jsonl" --tokens 9 --temperature 0 \
  --max-memory cpu=0
check "says what bounds a batch" grep -q 'at most .* steps/s' "$work/out"
check "the same texts of a batch" cmp "$work/a.jsonl" "$work/b.jsonl"

run 1 generate "$work/large" --prompts "$work/prompts.jsonl" -o "$work/c.jsonl" --max-memory cpu=0 --dry-run
check "a dry run" test "$status" = 0
check "shows the table" grep -q 'blocks 0 to 11 *disk' "$work/out"
check "writes nothing" test ! -e "$work/c.jsonl" -a ! -e "$work/c.jsonl.partial"
if [ -n "${TRIREME_PEAK_MEMORY:-}" ]; then
  peak() {
    rm -f "$work/ranks"
    "$TRIREME_PEAK_MEMORY" "$work/ranks" "$TRIREME" generate "$work/large" --prompt-tokens 5,6 \
      --tokens 3 --temperature 0 "$@" >"$work/out" 2>"$work/table" </dev/null
    status=$?
    check "runs with: $*" test "$status" = 0
    cat "$work/ranks"
  }
  peak --dry-run >"$work/base"
  peak >"$work/whole"
  cp "$work/out" "$work/text"
  peak --max-memory cpu=16MB >"$work/part"
  check "the same text" cmp "$work/out" "$work/text"
  # What is held beside weights differs by a few MB from run to run.
  check "within its limit" awk 'FNR == 1 { n[++i] = $1 * 1024 / 1e6 }
    END { print n[1], n[2], n[3]; exit !(n[2] - n[1] > 44 && n[3] - n[1] < 16 + 8) }' \
    "$work/base" "$work/whole" "$work/part"
  cat "$work/check"
fi
finish
