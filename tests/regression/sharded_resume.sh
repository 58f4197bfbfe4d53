#!/usr/bin/env bash
# Checkpoints of sharded, pipelined, tied and expert meshes are resumed to the bit.
# SPDX-License-Identifier: Apache-2.0
# Another mesh goes on from them, and evaluate, generate and HDF5's tools read them.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml

# One global batch is the whole text: the loss of a step is that of evaluating the weights
# before it.
head -c $((32 * 8)) LICENSE >"$work/text"
# A constant rate, so that a run of fewer steps is the beginning of a longer one.
common=("data.paths=[\"$work/text\"]" batch.global=8 checkpoint.every=2
  checkpoint.keep=0 optimizer.schedule.name=constant optimizer.schedule.warmup=0)
moe="model.layers=3 model.moe.experts=4 model.feed_forward=24"

losses() { field "$work/$1/metrics.jsonl" loss; }

# whole NAME WORDS: 4 steps on 4 ranks, then the same stopped after 2 of them. The second has
# the words of `again` too, which change nothing of what is trained.
again=
whole() {
  local name=$1
  shift
  run 4 train $deck run.directory="$work/$name" run.steps=4 "${common[@]}" "$@"
  check "$name trains" test "$status" = 0
  run 4 train $deck run.directory="$work/$name-again" run.steps=2 "${common[@]}" "$@" $again
  check "$name: half of it" test "$status" = 0
  cp -r "$work/$name-again" "$work/$name-half"
  run 4 train $deck run.directory="$work/$name-again" run.steps=4 "${common[@]}" "$@" $again
  check "$name: resumed" test "$status" = 0
  check "$name: resumed at step 2" grep -q '(step 2,' "$work/out"
  check "$name: the same bits" identical "$name-again" "$name"
}

# elsewhere NAME RANKS WORDS: the second half on another mesh has the same losses.
elsewhere() {
  local name=$1 ranks=$2
  shift 2
  rm -rf "$work/other"
  cp -r "$work/$name-half" "$work/other"
  run "$ranks" train $deck run.directory="$work/other" run.steps=4 "${common[@]}" "$@"
  check "$name on $*" test "$status" = 0
  losses other >"$work/a"
  losses "$name" >"$work/b"
  check "$name on $*: losses" close_values "$work/a" "$work/b" 1e-9
}

# The third training loss, before the third update, is that of the second checkpoint.
evaluated() {
  run 1 evaluate "$work/$1/checkpoints/step-00000002" "$work/text"
  grep -o 'loss [^ ]*' "$work/out" | cut -d' ' -f2 >"$work/a"
  losses "$1" | sed -n 3p >"$work/b"
  check "$1: evaluation equals the next training loss" \
    close_values "$work/a" "$work/b" 1e-9
}

# in_file NAME TENSOR SHAPE: a whole tensor, where HDF5's tools are there.
in_file() {
  command -v h5dump >/dev/null || return 0
  h5dump -H -d "/$2" "$work/$1/checkpoints/latest/checkpoint.h5" >"$work/out" 2>&1
  check "$1: $2 is whole" grep -qF "SIMPLE { ( $3 )" "$work/out"
}

generated() {
  run 1 generate "$work/$1" --prompt "The license" --tokens 40 --temperature 0
  check "$1: generate" test "$status" = 0
}

# Four ranks write two files in one of the two.
again="checkpoint.ranks_per_file=3 checkpoint.async=true"
whole full model.layers=3 parallel.sharding_strategy=FULL_SHARD
again=
check "full: two files" test "$(ls "$work/full-half/checkpoints/latest/" | grep -c '^shard-')" = 2
run 1 inspect "$work/full-half" --verify
check "full: two files are whole" test "$status" = 0
run 1 convert "$work/full-half" "$work/full-folder"
check "full: two files become a folder" test "$status" = 0
in_file full-half model/model.layers.1.mlp.down_proj.weight "32, 48"
evaluated full
in_file full model/model.layers.1.mlp.down_proj.weight "32, 48"
in_file full optimizer/moment2/lm_head.weight "257, 32"
elsewhere full 4 model.layers=3 parallel.pipeline=2 parallel.tensor=2
elsewhere full 2 model.layers=3 parallel.context=2 parallel.sharding_strategy=ZERO1
elsewhere full 3 model.layers=3 parallel.sharding_strategy=FULL_SHARD  # 8 sequences

tied="model.layers=3 model.tie_embeddings=true"
whole tied $tied parallel.pipeline=2 parallel.sharding_strategy=SHARD_GRAD_OP
evaluated tied
in_file tied model/model.embed_tokens.weight "257, 32"
generated tied
elsewhere tied 4 $tied parallel.tensor=2 parallel.sharding_strategy=FULL_SHARD
elsewhere tied 3 $tied parallel.pipeline=3 parallel.schedule=zb_h1

mixtral="model.architecture=mixtral $moe"
whole mixtral $mixtral parallel.expert=2 parallel.sharding_strategy=FULL_SHARD
evaluated mixtral
in_file mixtral model/model.layers.2.block_sparse_moe.experts.3.w1.weight "24, 32"
generated mixtral
elsewhere mixtral 4 $mixtral parallel.pipeline=2 parallel.tensor=2
elsewhere mixtral 3 $mixtral parallel.sharding_strategy=ZERO1

deepseek="model.architecture=deepseek_moe $moe model.moe.shared_experts=1
  model.moe.dense_layers=1 model.moe.router=sigmoid model.moe.choice_bias=true
  model.moe.bias_update_rate=0.01"
whole deepseek $deepseek parallel.expert=4 parallel.sharding_strategy=SHARD_GRAD_OP
evaluated deepseek
generated deepseek
elsewhere deepseek 2 $deepseek parallel.pipeline=2

whole offload parallel.pipeline=2 parallel.schedule=interleaved parallel.virtual_stages=2 \
  model.layers=4 parallel.sharding_strategy=FULL_SHARD parallel.offload=weights
elsewhere offload 1 model.layers=4

whole activations parallel.pipeline=2 parallel.schedule=interleaved parallel.virtual_stages=2 \
  model.layers=4 parallel.offload_activations=true
check "activations: their bytes" \
  grep -qE '"activation_bytes_to_host": [1-9]' "$work/activations/metrics.jsonl"
elsewhere activations 1 model.layers=4

# State on a disk: a run that stops and goes on with it has the bits of one without, and
# either goes on from the other's checkpoint. Nothing is left in the folder.
mkdir "$work/disk"
disk="parallel.offload=disk parallel.offload_directory=$work/disk"
stopped=(train $deck run.directory="$work/away" "${common[@]}" model.layers=3
  parallel.sharding_strategy=FULL_SHARD $disk)
run 4 "${stopped[@]}" run.steps=2 checkpoint.async=true
check "disk: half of it" test "$status" = 0
check "disk: says where, and how" grep -qE "of rank 0 on the disk, $work/disk: (by direct|through)" \
  "$work/out"
check "disk: planned" grep -qE '^disk +[0-9.]+ KiB of the optimizer' "$work/out"
check "disk: its bytes" grep -qE '"offload_bytes_from_disk": [1-9]' "$work/away/metrics.jsonl"
cp -r "$work/away" "$work/away-half"
run 4 "${stopped[@]}" run.steps=4 parallel.offload_fraction=0.5
check "disk: resumed" test "$status" = 0
check "disk: the same bits" identical away full
elsewhere full 2 model.layers=3 parallel.context=2 parallel.sharding_strategy=ZERO1 $disk
cp "$work/full/metrics.jsonl" "$work/away/metrics.jsonl"
elsewhere away 1 model.layers=3
check "disk: nothing is left" test -z "$(ls -A "$work/disk")"
# A rank that is killed leaves nothing either.
run 2 train $deck run.directory="$work/killed" run.steps=4 $disk debug.fault=kill@2@1
check "disk: killed" test "$status" != 0
check "disk: nothing is left by a rank that was killed" test -z "$(ls -A "$work/disk")"
# Room that cannot be taken: one message, before the first step. The limit leaves MPI's own
# files alone.
ulimit -S -f $((100 * 1024))
run 1 train $deck run.directory="$work/small" run.steps=4 model.hidden=512 \
  model.feed_forward=4096 $disk
ulimit -S -f unlimited
check "disk: too little room" expect 78 "$work/disk: the optimizer's state of rank 0 needs"
check "disk: no step was done" test ! -s "$work/small/metrics.jsonl"
run 1 train $deck run.directory="$work/small" run.steps=4 parallel.offload=disk \
  parallel.offload_directory="$work/nowhere"
check "disk: no folder" expect 73 "parallel.offload_directory = \"$work/nowhere\": rank 0 cannot write"
finish
