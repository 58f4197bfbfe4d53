#!/usr/bin/env bash
# The whole program on several meshes equals one rank.
# SPDX-License-Identifier: Apache-2.0
# The gradient of every tensor at step 1, unclipped norms and 20 losses are compared (EQ64
# in fp64, EQ32 in fp32).
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml

# train RANKS NAME OVERRIDES...
train() {
  local ranks=$1 name=$2
  shift 2
  run "$ranks" train "$deck" run.directory="$work/$name" 'debug.dump_gradients=[1]' "$@"
  check "$name ends well" test "$status" = 0
  field "$work/$name/metrics.jsonl" loss >"$work/$name.loss"
  field "$work/$name/metrics.jsonl" grad_norm | head -1 >"$work/$name.norm"
}

# same NAME REFERENCE GRADIENT NORM LOSS
same() {
  check "$1 gradients" "$H5_COMPARE" "$work/$1/gradients/step-00000001.h5" \
    "$work/$2/gradients/step-00000001.h5" "$3"
  check "$1 norm" close_values "$work/$1.norm" "$work/$2.norm" "$4"
  check "$1 losses" close_values "$work/$1.loss" "$work/$2.loss" "$5"
}

train 1 one
train 2 data2
train 2 tensor2 parallel.tensor=2
train 4 tensor4 parallel.tensor=4
train 4 both parallel.tensor=2 parallel.sequence=true batch.micro=2
train 3 data3
# Three microbatches on two data ranks.
train 2 uneven batch.micro=4 parallel.sharding_strategy=FULL_SHARD
for name in data2 tensor2 tensor4 both data3 uneven; do same $name one 1e-10 1e-10 1e-9; done

single="precision.compute=fp32 model.tie_embeddings=true"
train 1 one32 $single
train 4 both32 $single parallel.tensor=4 parallel.sequence=true
same both32 one32 1e-5 1e-6 1e-5

gpt2="model.architecture=gpt2 model.kv_heads=4"
train 1 gpt2one $gpt2
train 4 gpt2both $gpt2 parallel.tensor=2 parallel.sequence=true
same gpt2both gpt2one 1e-10 1e-10 1e-9

# A key/value head that both tensor ranks have, in one tensor with their own query heads.
phi3="model.architecture=phi3 model.kv_heads=1 health.check_replicas_every=1"
train 1 phi3one $phi3
train 2 phi3two $phi3 parallel.tensor=2
same phi3two phi3one 1e-10 1e-10 1e-9
finish
