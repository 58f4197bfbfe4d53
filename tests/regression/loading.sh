#!/usr/bin/env bash
# A rank that loads a model holds its share of the weights and one tensor, no more.
# SPDX-License-Identifier: Apache-2.0
# The model has 64 MB of weights in fp32, of which the largest tensor has 17. A rank's
# largest resident memory is compared with that of the same command on a model of nothing,
# or on the same model that is made and not loaded.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
if [ -z "${TRIREME_PEAK_MEMORY:-}" ]; then
  echo "skipped: TRIREME_PEAK_MEMORY names no program"
  exit 77
fi
ranks=4
largest=17 slack=8 # MB; libraries, arenas and the allocator differ by some between runs

# peak NAME ARGS...: the most that a rank holds, in KiB, in $work/NAME.peak.
peak() {
  local name=$1
  shift
  rm -f "$work/ranks"
  timeout 300 "$MPIRUN" -n $ranks "$TRIREME_PEAK_MEMORY" "$work/ranks" "$TRIREME" "$@" \
    >"$work/out" 2>&1 </dev/null
  check "$name comes to its end" test $? = 0
  sort -n "$work/ranks" | tail -n 1 >"$work/$name.peak"
}
# holds NAME BASE MB: the peak of NAME is at most so much above that of BASE.
holds() {
  awk -v most="$3" 'NR == 1 { a = $1 } NR == 2 { b = $1 }
    END { print "more by " (a - b) / 1024 " MiB, at most " most " are allowed"
          exit NR != 2 || (a - b) * 1024 > most * 1e6 }' \
    "$work/$1.peak" "$work/$2.peak"
}
train() { # NAME TENSOR ARGS...
  local name=$1
  shift
  peak "$name" train "$work/deck.toml" run.directory="$work/$name" "$@"
}

cat >"$work/deck.toml" <<'DECK'
[run]
steps = 1
[model]
layers = 4
hidden = 512
heads = 8
feed_forward = 1280
vocabulary = 8192
sequence = 16
tie_embeddings = true
[batch]
global = 4
micro = 1
[data]
source = "synthetic"
[optimizer]
learning_rate = 1e-3
DECK
whole=64 # 4 (4 512^2 + 3 512 1280) + 8192 512 numbers of 4 bytes, in MB
share=$((whole / ranks))
small="model.layers=1 model.hidden=16 model.heads=4 model.feed_forward=16 model.vocabulary=300"

# 1. Made here, on one rank of four parts; the models to load.
train made parallel.tensor=4
run 1 convert "$work/made" "$work/folder" --shard-bytes 20000000
run 1 train "$work/deck.toml" $small batch.global=1 run.directory="$work/small"
run 1 convert "$work/small" "$work/none"
printf 'some words of no weight, and some more of them: a line that is long enough for a window or two of sixteen tokens each\n' >"$work/text"
run 1 tokenize --train 300 "$work/text" -o "$work/tokenizer.json"
run 1 tokenize "$work/text" --tokenizer "$work/tokenizer.json" -o "$work/tokens.h5"

# 2. Commands that hold weights alone.
for from in folder made; do
  peak "$from.read" evaluate "$work/$from" "$work/tokens.h5" --sequence 8
  base=none
  [ $from = folder ] || base=small
  peak "$from.base" evaluate "$work/$base" "$work/tokens.h5" --sequence 8
  check "evaluate $from: a share and a tensor" \
    holds "$from.read" "$from.base" $((share + largest + slack))
done
peak convert convert "$work/folder" "$work/again"
peak convert.base convert "$work/none" "$work/none.again"
check "convert: one tensor" holds convert convert.base $((largest + slack))
peak back convert "$work/made" "$work/back"
peak back.base convert "$work/small" "$work/small.back"
check "convert to a folder: one tensor" holds back back.base $((largest + slack))

# 3. Training from them takes one tensor more than training from nothing.
for strategy in NO_SHARD FULL_SHARD; do
  words="parallel.tensor=2 parallel.sharding_strategy=$strategy"
  train "$strategy.base" $words
  train "$strategy.folder" $words model.from="$work/folder"
  check "$strategy: from a folder" \
    holds "$strategy.folder" "$strategy.base" $((largest + slack))
  train "$strategy.base" $words run.steps=2 # goes on from its checkpoint
  check "$strategy: it goes on" grep -q 'resume ' "$work/out"
  train "$strategy.new" $words
  check "$strategy: from a checkpoint" \
    holds "$strategy.base" "$strategy.new" $((largest + slack))
done
finish
