#!/usr/bin/env bash
# comm.reproducible: weights have the same bits on any number of data ranks.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
deck=$SOURCE/tests/regression/tiny.toml
cd "$SOURCE" || exit 1
exact="comm.reproducible=true parallel.sharding_strategy=NO_SHARD"
few="run.steps=4 checkpoint.every=4 optimizer.schedule.warmup=1"

# trains RANKS NAME WORDS...: a run, and the digests of its tensors in NAME.tensors.
trains() {
  local ranks=$1 name=$2
  shift 2
  run "$ranks" train "$deck" run.directory="$work/$name" $few "$@"
  check "$name" test "$status" = 0
  tensors "$work/$name" >"$work/$name.tensors"
  check "$name: has tensors" test -s "$work/$name.tensors"
}

# same NAME "RANKS..." WORDS...: the same bits on each of these.
same() {
  local name=$1 ranks=$2 first="" count
  shift 2
  for count in $ranks; do
    trains "$count" "$name-$count" $exact "$@"
    first=${first:-$name-$count}
    check "$name: $count ranks" cmp "$work/$first.tensors" "$work/$name-$count.tensors"
  done
}

same fp32 "1 2 4" precision.compute=fp32
same bf16 "1 3" precision.compute=bf16 batch.micro=2 model.dropout.residual=0.1 parallel.bucket_bytes=1000
same fp8 "1 2" precision.compute=fp8 precision.recipe=te_delayed batch.micro=2 model.feed_forward=64
same stages "2 4" precision.compute=fp32 parallel.pipeline=2 parallel.schedule=zb_h1 model.tie_embeddings=true
same experts "1 2" precision.compute=fp32 model.architecture=mixtral model.moe.experts=4 model.moe.aux_loss=0.1
same tensor "2 4" precision.compute=fp32 parallel.tensor=2 parallel.sequence=true parallel.offload=optimizer

# Without it sums are rounded in the order of microbatches and ranks.
trains 1 rounded-1 precision.compute=fp32
trains 2 rounded-2 precision.compute=fp32
check "without it bits differ" test "$(cmp -s "$work/rounded-1.tensors" "$work/rounded-2.tensors"; echo $?)" = 1
# What it changes is less than what fp32 rounds.
check "and the weights are those" "$H5_COMPARE" "$work/rounded-1/checkpoints/latest/checkpoint.h5" \
  "$work/fp32-1/checkpoints/latest/checkpoint.h5" 1e-3

# On with another number of ranks, as if nothing had been.
run 2 train "$deck" run.directory="$work/half" $few $exact precision.compute=fp32 checkpoint.every=2
run 4 train "$deck" run.directory="$work/moved" $few $exact precision.compute=fp32 \
  checkpoint.resume="$work/half/checkpoints/step-00000002"
check "the other half" test "$status" = 0
tensors "$work/moved" >"$work/moved.tensors"
check "half on 2, half on 4 ranks" cmp "$work/moved.tensors" "$work/fp32-1.tensors"
finish
