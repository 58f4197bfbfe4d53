#!/usr/bin/env bash
# The steady state: over 1,000 steps nothing is allocated after step 2.
# SPDX-License-Identifier: Apache-2.0
# Resident memory stays flat, and the loss comes down to what the source allows.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1

run 2 train tests/regression/tiny.toml run.directory="$work/run" run.steps=1000 \
  precision.compute=fp32 parallel.tensor=2 metrics.every=100 batch.global=4 batch.micro=4 data.source=synthetic \
  'data.paths=[]' model.vocabulary=16 optimizer.learning_rate=1e-2
check "1,000 steps" test "$status" = 0
field "$work/run/metrics.jsonl" allocations | tail -n +2 | sort -u >"$work/a"
check "nothing is allocated after step 2" test "$(wc -l <"$work/a")" = 1
field "$work/run/metrics.jsonl" resident_bytes >"$work/b"
flat() { awk 'NR == 10 { first = $1 } END { print first, $1; exit !($1 <= 1.01 * first) }' "$work/b"; }
check "resident memory is flat within 1 %" flat
# The floor is 1.75 bits = 1.213 nats a token.
learned() { field "$work/run/metrics.jsonl" loss | tail -20 | awk '{ s += $1 } END { print s / NR; exit !(s / NR < 1.3 && s / NR > 1.15) }'; }
check "the loss reaches the entropy floor" learned
finish
