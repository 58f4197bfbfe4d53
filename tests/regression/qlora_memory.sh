#!/usr/bin/env bash
# QLoRA that begins from a folder: at no time does a rank hold more than is planned.
# SPDX-License-Identifier: Apache-2.0
# A model whose embedding is large, as they are: what is made of a table at the start shows.
. "$(dirname "$0")/lib.sh"
if [ -z "${TRIREME_PEAK_MEMORY:-}" ]; then
  echo "skipped: TRIREME_PEAK_MEMORY names no program"
  exit 77
fi
cat >"$work/deck.toml" <<'EOD'
run.steps = 1
model.sequence = 16
data.source = "synthetic"
batch.global = 2
batch.micro = 1
precision.compute = "bf16"
EOD
shape="model.layers=2 model.hidden=512 model.heads=4 model.feed_forward=1024 model.vocabulary=50000
  model.tie_embeddings=true"

# 1. the model: an adapter beside random numbers, merged
run 1 train "$work/deck.toml" $shape adapter.rank=1 'adapter.targets=["q_proj"]' run.directory="$work/random"
check "random numbers" test "$status" = 0
run 1 convert "$work/random" "$work/base" --merge
check "a folder" test "$status" = 0

# 2. QLoRA
timeout 300 "$MPIRUN" -n 2 "$TRIREME_PEAK_MEMORY" "$work/kilobytes" "$TRIREME" train "$work/deck.toml" \
  model.from="$work/base" adapter.rank=8 adapter.quantize=nf4 parallel.sharding_strategy=FULL_SHARD \
  run.directory="$work/run" >"$work/out" 2>&1 </dev/null
check "it trains" test "$?" = 0

# What a rank of a run holds at most beside what is planned: 5 % and 8 MiB, for a part of a matrix
# in fp32 and its codes; and what is resident besides: 48 MiB of libraries and MPI, of which a plan
# says that they are about 40.
bytes_of='function bytes(n, unit) { return n * (unit == "GiB" ? 2^30 : unit == "MiB" ? 2^20 : 2^10) }'
planned=$(awk "$bytes_of"' $1 == "total" && NF == 5 { printf "%.0f", bytes($2, $3) }' "$work/out")
held=$(field "$work/run/metrics.jsonl" memory_peak_bytes | sort -n | tail -1)
resident=$(sort -n "$work/kilobytes" | tail -1)
within() { # BYTES MORE
  awk -v n="$1" -v plan="$planned" -v more="$2" 'BEGIN {
    print n " bytes, planned " plan; exit !(plan > 1e8 && n > 0.3 * plan && n < 1.05 * plan + more) }'
}
check "what is counted is within the plan" within "$held" $((8 << 20))
check "what is resident is within the plan" within $((resident * 1024)) $((56 << 20))
cat "$work/check"
finish
