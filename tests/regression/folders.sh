#!/usr/bin/env bash
# Hugging Face folders in and out: logits, round trips, training from them, damaged ones.
# SPDX-License-Identifier: Apache-2.0
# What transformers computes for them lies beside them (tests/reference/make_folders.py).
. "$(dirname "$0")/lib.sh"
cd "$SOURCE/tests/reference/folders" || exit 1

# tensors CHECKPOINT: digest and name of each, a line each.
tensors() { "$TRIREME" inspect "$1" 2>/dev/null | grep -E '^[0-9a-f]{32} .* model/' | sort; }

# not_close A.h5 B.h5: they differ by more than rounding.
not_close() { ! "$H5_COMPARE" "$1" "$2" 1e-4; }

# 1. Logits are those of transformers. In fp32 2e-5 is some 100 roundings of 6e-8 in a row
# of sums of 40 terms; in bf16 a rounding is 4e-3, and blocks add up.
for name in llama llama_yarn llama_linear mistral mistral_window ministral qwen2 qwen2_window \
  qwen3 qwen3_moe mixtral gpt2 gpt2_untied; do
  limit=2e-5
  [ "$name" = llama_linear ] && limit=3e-2
  run 1 evaluate $name tokens.h5 --logits "$work/$name.h5"
  check "$name is evaluated" test "$status" = 0
  check "$name has the logits of transformers" "$H5_COMPARE" "$work/$name.h5" $name.h5 $limit
done

# 2. To a checkpoint, and back: the same bytes.
for name in llama llama_linear ministral qwen2 mixtral qwen3_moe gpt2; do
  run 1 convert $name "$work/$name.ck"
  check "$name becomes a checkpoint" test "$status" = 0
  run 2 convert "$work/$name.ck" "$work/$name.out" --shard-bytes 9000
  check "$name becomes a folder again" test "$status" = 0
  run 2 convert "$work/$name.out" "$work/$name.again"
  tensors "$work/$name.ck" >"$work/a"
  tensors "$work/$name.again" >"$work/b"
  check "$name keeps every tensor" cmp "$work/a" "$work/b"
  check "$name has tensors" test -s "$work/a"
  for file in config.json tokenizer.json generation_config.json; do
    check "$name keeps $file" cmp "$name/$file" "$work/$name.out/$file"
  done
  run 1 convert "$work/$name.ck" "$work/$name.one"
  [ -f $name/model.safetensors ] &&
    check "$name keeps every byte" cmp $name/model.safetensors "$work/$name.one/model.safetensors"
done
run 1 evaluate "$work/llama.ck" tokens.h5 --logits "$work/b.h5"
check "the checkpoint has the same logits" "$H5_COMPARE" "$work/b.h5" llama.h5 2e-5
run 1 convert llama "$work/llama.ck"
check "nothing is replaced" expect 73 "is there already"
run 1 convert llama "$work/half" --dtype bf16
run 1 inspect "$work/half"
check "another type" grep -q 'bf16 \[67, 24\]  model/lm_head.weight' "$work/out"

# 3. What it is.
run 1 inspect qwen3
for words in 'Qwen3ForCausalLM' 'architecture = "qwen3"' 'head_width = 10' '^3 shards'; do
  check "inspect says $words" grep -q "$words" "$work/out"
done
run 1 generate gpt2 --prompt-tokens 1,2,3 --tokens 5 --temperature 0
check "generate" test "$status" = 0

# 4. Training from it, on two ranks, and out again.
cat >"$work/deck.toml" <<'DECK'
[model]
sequence = 16
[batch]
global = 2
micro = 1
[data]
source = "tokens"
DECK
for name in llama mixtral gpt2; do
  axis=tensor
  [ "$name" = mixtral ] && axis=expert
  run 2 train "$work/deck.toml" run.steps=2 run.directory="$work/$name.run" parallel.$axis=2 \
    model.from=$name data.paths='["tokens.h5"]' optimizer.learning_rate=1e-3
  check "$name is trained" test "$status" = 0
  run 1 convert "$work/$name.run" "$work/$name.tuned"
  check "$name is exported" test "$status" = 0
  check "$name keeps its tokenizer" cmp $name/tokenizer.json "$work/$name.tuned/tokenizer.json"
  run 1 evaluate "$work/$name.run" tokens.h5 --logits "$work/a.h5"
  run 1 evaluate "$work/$name.tuned" tokens.h5 --logits "$work/b.h5"
  check "$name has the same logits outside" "$H5_COMPARE" "$work/a.h5" "$work/b.h5" 1e-6
  check "$name has learned" not_close "$work/a.h5" $name.h5
done
mkdir "$work/alone" && cp llama/config.json "$work/alone"
run 1 plan "$work/deck.toml" run.steps=1 model.from="$work/alone" data.paths='["tokens.h5"]'
check "a plan needs config.json alone" grep -q '9672' "$work/out"
run 1 train "$work/deck.toml" run.steps=1 --check model.from="$work/alone" data.paths='["tokens.h5"]'
check "and --check the tensors" expect 66 'there is neither'
# A run goes on from its own checkpoint; another starts from that one's weights.
run 2 train "$work/deck.toml" run.steps=3 run.directory="$work/llama.run" parallel.tensor=2 \
  model.from=llama data.paths='["tokens.h5"]' optimizer.learning_rate=1e-3
check "the run goes on" grep -q 'resume .*step 2' "$work/out"
run 1 train "$work/deck.toml" run.steps=1 run.directory="$work/next" model.from="$work/llama.run" \
  data.paths='["tokens.h5"]' optimizer.learning_rate=0
check "another starts from it" grep -q 'start .*llama.run' "$work/out"
run 1 evaluate "$work/llama.run" tokens.h5 --logits "$work/a.h5"
run 1 convert "$work/next" "$work/next.out"
run 1 evaluate "$work/next.out" tokens.h5 --logits "$work/b.h5"
check "with its weights" "$H5_COMPARE" "$work/a.h5" "$work/b.h5" 1e-6
check "and its tokenizer" cmp llama/tokenizer.json "$work/next.out/tokenizer.json"
run 1 train "$work/deck.toml" run.steps=1 --check model.from=llama data.paths='["tokens.h5"]' model.layers=3
check "a deck that disagrees" expect 64 'model.layers = 3: differs from 2'
finish
