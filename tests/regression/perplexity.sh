#!/usr/bin/env bash
# What codes cost a trained model: 1 % of perplexity (int8, FP8) and 3 % (NF4) at most.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1

"$TRIREME" tokenize --train 400 docs/*.md -o "$work/tokenizer.json" >/dev/null 2>&1
tokens() { "$TRIREME" tokenize "${@:2}" --tokenizer "$work/tokenizer.json" -o "$work/$1" >/dev/null 2>&1; }
tokens learned.h5 docs/[a-l]*.md
tokens held.h5 docs/[m-q]*.md
cat >"$work/deck.toml" <<EOD
run.steps = 120
run.directory = "$work/run"
batch.global = 16
batch.micro = 16
checkpoint.every = 120
precision.compute = "fp32"
[data]
source = "tokens"
paths = ["$work/learned.h5"]
[model]
architecture = "llama"
layers = 2
hidden = 96
heads = 4
feed_forward = 256
vocabulary = 400
sequence = 64
[optimizer]
name = "adamw"
learning_rate = 5e-3
EOD
run 1 train "$work/deck.toml"
check "a small model is trained" test "$status" = 0
run 1 convert "$work/run" "$work/bf16" --dtype bf16
check "it becomes a folder of bf16" test "$status" = 0

# perplexity FOLDER: of text that it has not learned from.
perplexity() {
  run 1 evaluate "$1" "$work/held.h5"
  check "$1 is evaluated" test "$status" = 0
  sed -n 's/.*perplexity \([0-9.e+-]*\).*/\1/p' "$work/out"
}
within() { # A B PERCENT
  awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN {
    print a " and " b; exit !(a > 1 && b > 1 && a / b < 1 + most / 100 && b / a < 1 + most / 100) }'
}
own=$(perplexity "$work/bf16")
learned() { awk -v own="$own" 'BEGIN { exit !(own > 1 && own < 200) }'; }
check "it has learned: half of a guess among 400" learned
for kind in int8:1 fp8:1 fp8-blocks:1 nf4:3; do
  run 1 convert "$work/bf16" "$work/${kind%:*}" --quantize "${kind%:*}"
  check "it becomes a folder of ${kind%:*}" test "$status" = 0
  check "perplexity of ${kind%:*}" within "$(perplexity "$work/${kind%:*}")" "$own" "${kind#*:}"
done
finish
