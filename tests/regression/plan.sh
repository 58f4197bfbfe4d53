#!/bin/bash
# Plans that tell time by a machine file, machine files, and decks that do not fit.
# SPDX-License-Identifier: Apache-2.0
source "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
h100=inputs/machines/h100-sxm.toml

ended_well() { [ "$status" = 0 ]; }
out_has() { grep -q -- "$1" "$work/out"; }

# The same text each time, with a pipeline too.
for mesh in parallel.tensor=2 parallel.pipeline=2; do
  run 1 plan $deck --ranks 4 --machine $h100 $mesh
  check "$mesh: planned" ended_well
  check "$mesh: a step's time" grep -qE '^step +[0-9].* tokens/s' "$work/out"
  check "$mesh: goodput" out_has "goodput"
  cp "$work/out" "$work/first"
  run 1 plan $deck --ranks 4 --machine $h100 $mesh
  check "$mesh: the same again" cmp "$work/out" "$work/first"
done

# Experts shared out by 64 ranks, with memory for the worst case and for 1.5 times an even
# load; and by 320, one each. Traffic is that of an even load all the same.
experts="inputs/models/deepseek-v3.toml parallel.pipeline=16"
activations() { grep -oE 'activations +[0-9.]+ GiB' "$work/out" | grep -oE '[0-9.]+' | head -n 1; }
run 1 plan $experts --ranks 4096 parallel.expert=64
check "64 ranks of experts" ended_well
worst=$(activations)
grep 'experts *send' "$work/out" >"$work/sent"
run 1 plan $experts --ranks 4096 parallel.expert=64 parallel.expert_memory=1.5
check "with bounded memory" ended_well
check "a fraction of $worst GiB" test "$(activations | cut -d. -f1)" -lt "$((${worst%.*} / 4))"
check "the same messages" diff "$work/sent" <(grep 'experts *send' "$work/out")
check "what it says of them" out_has "takes further rounds"
run 1 plan $experts --ranks 5120 batch.global=1280 parallel.expert=320 model.moe.experts=320 \
  parallel.expert_memory=1.5
check "320 ranks of experts" ended_well
check "which talk to all others" grep -qE 'experts +send +5104 ' "$work/out"

# With sequence parallelism a rank keeps its rows alone of what is gathered: for 405B the
# 61 GiB that Korthikanti et al. count, and a twentieth.
run 1 plan inputs/models/llama-3.1-405b.toml --ranks 128 parallel.tensor=8 parallel.pipeline=16 \
  parallel.sequence=true batch.micro=1
check "405B keeps shards" test "$(activations | head -1 | cut -d. -f1)" -le 64

# What is measured here is a machine file.
run 2 bench --machine "$work/here.toml" --quick
check "measured" ended_well
run 1 plan $deck --machine "$work/here.toml"
check "planned by what was measured" ended_well
check "what was not measured" grep -q '^# Links between nodes were not measured' "$work/here.toml"
check "nothing is left beside it" test "$(ls "$work"/here.toml*)" = "$work/here.toml"

# A run compares itself with its prediction.
run 2 train $deck run.directory="$work/compared" --machine "$work/here.toml"
check "a run with a prediction" ended_well
check "its end says how far it was off" grep -qE \
  'predicted a step of .*; the median of 18 was .*: -?[0-9.]+ % off' "$work/out"
check "each step has its prediction" test \
  "$(grep -c '"predicted_step_seconds"' "$work/compared/metrics.jsonl")" = 20
run 1 report "$work/compared" --output "$work/compared.html"
check "the report compares them" grep -q 'predicted and measured' "$work/compared.html"
# Memory of ranks elsewhere is judged by a machine file, and by nothing else.
run 1 train $deck --check --ranks 2
check "a check for ranks elsewhere names what it left out" grep -q 'the deck is good; .*add --machine FILE' "$work/out"
run 1 train $deck --check --ranks 2 --machine "$work/here.toml"
check "a check by a machine file" grep -q 'the deck is good$' "$work/out"
sed 's/^memory = .*/memory = 0.1/' "$work/here.toml" >"$work/small.toml"
run 1 train $deck --check --ranks 2 --machine "$work/small.toml" model.hidden=512 model.heads=8 model.layers=8
check "a deck that its ranks have no room for" expect 78 "the machine file of"
# A plan is the same wherever it is made: by the file, not by what this program has.
run 1 plan $deck --ranks 2 --machine "$h100"
mv "$work/out" "$work/by_file"
run 1 plan $deck --ranks 2 --machine "$h100" run.device=cuda
check "GPUs that are not here are planned" cmp "$work/out" "$work/by_file"
run 1 plan $deck --ranks 2 --machine "$h100" run.device=cpu
check "a device that the file has not" expect 65 'compute on GPUs: write run.device = "auto"'
run 1 plan $deck --ranks 1 --machine "$h100" precision.compute=fp8 precision.recipe=mxfp8 model.feed_forward=64
check "scales that GPUs do not make" expect 65 'write precision.recipe = "te_blocks"'
run 1 plan $deck --ranks 1 --machine "$h100" precision.compute=fp8 precision.recipe=mxfp8 model.feed_forward=64 --search
check "are not searched" expect 65 'made on CPUs alone'

# A model without a deck: its shape alone.
mkdir "$work/model"
cat >"$work/model/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
 "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 128,
 "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "hidden_act": "silu", "attention_bias": false, "torch_dtype": "bfloat16"}
END
# 300 x 64 twice; a layer: q, o 64 x 64, k, v 32 x 64, three of 128 x 64, two norms; a norm.
weights=$((2 * 300 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 128) + 64))
run 1 plan "$work/model"
check "a folder" ended_well
check "its parameters" out_has " $weights parameters"
check "on one rank" out_has "training on 1 rank = pipeline 1 x"
cp "$work/out" "$work/first"
run 1 plan "$work/model"
check "the same again" cmp "$work/first" "$work/out"
run 1 plan "$work/model/config.json"
check "config.json alone" cmp "$work/first" "$work/out"
for type in fp32 bf16 fp16; do
  check "$type: inference" grep -qE "^ *$type +inference" "$work/out"
  for name in adamw sgd lion muon; do
    check "$type: $name" grep -qE "^ *$type +training, $name .* [0-9.]+ [KMG]iB\$" "$work/out"
  done
  check "$type: LoRA" grep -qE "^ *$type +LoRA.* [0-9.]+ [KMG]iB\$" "$work/out"
  check "$type: QLoRA" grep -qE "^ *$type +QLoRA, nf4.* [0-9.]+ [KMG]iB\$" "$work/out"
done
# A row is the plan of the deck that it stands for.
sum=$(grep -E '^ *fp32 +training, adamw' "$work/out" | sed 's/.*  //')
"$TRIREME" inspect "$work/model" >/dev/null 2>&1
run 1 plan $deck model.architecture=llama model.layers=2 model.hidden=64 model.heads=4 \
  model.kv_heads=2 model.feed_forward=128 model.vocabulary=300 model.sequence=128 \
  data.source=synthetic data.paths=[] batch.global=1 precision.compute=fp32
check "a row is a plan ($sum)" out_has "total $sum on rank 0"
run 1 plan "$work/model" --ranks 16 --machine $h100 --precision bf16 --sequence 64 --batch 32
check "on a machine" ended_well
check "one type" test "$(grep -cE '^ *(fp32|fp16|fp8) ' "$work/out")" = 0
check "what fits" grep -qE 'training, adamw.* yes' "$work/out"
check "its time" grep -qE '^step +[0-9].* tokens/s' "$work/out"
run 1 plan "$work/model" --ranks 4 --machine $h100 --search -o "$work/of-model.toml"
check "searched" ended_well
run 1 plan "$work/of-model.toml" --ranks 4 --machine $h100
check "and written" ended_well
run 1 plan llama-3.2-1b --ranks 8 --precision bf16
check "a name" out_has " 1235814400 parameters"
run 1 plan "$work/model" --sequence 256
check "more than it has" expect 64 "has 128 positions"
run 1 plan $deck --batch 4
check "an option of models" expect 64 "batch.global="
run 1 plan "$work/none/config.json"
check "no config.json" test "$status" = 66
echo '{"model_type": "llama"' >"$work/broken.json"
run 1 plan "$work/broken.json"
check "broken JSON" expect 65 "broken.json"
run 1 plan "$work"
check "no model's folder" test "$status" = 66 -o "$status" = 65

# Wrong files and words.
run 1 plan $deck --machine "$work/none.toml"
check "no file" expect 66 "none.toml"
run 1 plan llama-3.1-9b
check "no model of that name" expect 66 "which has .*llama-3.1-8b"
sed 's/^sweeps/sweep/' $h100 >"$work/wrong.toml"
run 1 plan $deck --machine "$work/wrong.toml"
check "an unknown key" test "$status" = 65
check "its nearest" out_has "memory.sweeps"
sed 's/^fp64.*/fp64 = 0.0/' $h100 >"$work/lacks.toml"
run 1 plan $deck --machine "$work/lacks.toml"
check "no rate for the deck's type" expect 78 "no rate of products in fp64"
run 1 bench $deck --machine "$work/x.toml"
check "a deck beside --machine" expect 64 "leave the deck out"
run 1 bench --machine "$work/none/x.toml" --quick
check "no folder for the file" test "$status" = 73

# Too little memory: here by what Slurm gave the job.
export SLURM_MEM_PER_NODE=1
for way in "--check" "run.directory=$work/run"; do
  run 2 train $deck data.source=bytes $way
  check "$way: refused" expect 78 "does not fit"
  check "$way: by whom" out_has "SLURM_MEM_PER_NODE of 1.00 MiB, for 2 ranks"
  check "$way: a way out" grep -qE '^  [a-z]+\.[a-z_]+=[A-Za-z0-9_]+: .* less' "$work/out"
done
check "nothing was written" test ! -e "$work/run"
export SLURM_MEM_PER_NODE=10000
run 2 train $deck --check
check "enough memory" ended_well
unset SLURM_MEM_PER_NODE
# The plan fits, but the system gives less: the same table, and what takes less.
(
  ulimit -v 1500000
  run 1 train $deck run.directory="$work/run" model.hidden=2048 model.feed_forward=4096
  check "no memory after all" expect 78 "cannot be allocated"
  check "its plan" out_has "a rank is planned to need .* GiB, and had .* of it before this failed:"
  check "its classes" out_has "^  optimizer  *[0-9.]* .iB$"
  check "what takes less" grep -qE '^  [a-z]+\.[a-z_]+=[A-Za-z0-9_]+: .* a rank, .* less' "$work/out"
  [ $failed = 0 ]
) || failed=$((failed + 1))
rm -rf "$work/run"
sed 's/^memory .*/memory = 0.1/' $h100 >"$work/small.toml"
run 1 plan $deck --machine "$work/small.toml" model.hidden=1024 model.feed_forward=4096
check "a machine file's memory" expect 78 "the machine file of"
# Many virtual stages, and an embedding and a head that are stages: a row a rank, of 100 columns.
run 1 plan $deck --ranks 4 parallel.pipeline=4 parallel.schedule=interleaved parallel.virtual_stages=8 \
  model.layers=30 batch.global=4 batch.micro=1
check "stages without a block" out_has "0     embedding, 3, 7, 11, 15, 19, 23, 27 "
check "rows that fit" test "$(awk 'length($0) > 100' "$work/out")" = ""
# Fine-tuning of codes is planned for GPUs, too.
run 1 plan "$work/model/config.json" --machine "$h100" --precision bf16
check "QLoRA on a GPU" out_has "bf16  QLoRA, nf4, rank 16 .* yes"
finish
