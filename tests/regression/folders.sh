#!/usr/bin/env bash
# Hugging Face folders in and out: logits, round trips, and training from them.
# SPDX-License-Identifier: Apache-2.0
# What transformers computes for them lies beside them (tests/reference/make_folders.py).
# All families are in folder_families.sh, damaged folders in bad_folders.sh.
. "$(dirname "$0")/folder_lib.sh"

# not_close A.h5 B.h5: they differ by more than rounding.
not_close() { ! "$H5_COMPARE" "$1" "$2" 1e-4; }

# 1. Logits, and round trips.
for name in llama mixtral gpt2; do
  has_logits $name
  goes_round $name
done
run 1 evaluate "$work/llama.ck" tokens.h5 --logits "$work/b.h5"
check "the checkpoint has the same logits" "$H5_COMPARE" "$work/b.h5" llama.h5 2e-5
run 1 evaluate llama tokens.h5 --sequence 8 --logits "$work/a.h5"
run 1 evaluate "$work/llama.ck" tokens.h5 --sequence 8 --logits "$work/b.h5"
check "windows may be shorter" "$H5_COMPARE" "$work/a.h5" "$work/b.h5" 1e-6
check "they are others" not_close "$work/b.h5" llama.h5
run 1 evaluate llama tokens.h5 --sequence 32
check "positions that a folder lacks" expect 64 'has 16 positions, .* give a smaller --sequence'
# A model may have more positions than a sample, not fewer.
run 1 evaluate gpt2 tokens.h5 --sequence 8 --logits "$work/a.h5"
run 1 evaluate "$work/gpt2.ck" tokens.h5 --sequence 8 --logits "$work/b.h5"
check "learned positions need not all be used" "$H5_COMPARE" "$work/a.h5" "$work/b.h5" 1e-6
run 1 evaluate gpt2 tokens.h5 --sequence 32
check "learned positions that a folder lacks" expect 64 'has 16 positions, .* give a smaller --sequence'
run 1 evaluate "$work/gpt2.ck" tokens.h5 --sequence 32
check "and that a checkpoint lacks" expect 64 'has 16 positions, .* give a smaller --sequence'
run 1 convert llama "$work/llama.ck"
check "nothing is replaced" expect 73 "is there already"
run 1 convert llama "$work/half" --dtype bf16
run 1 inspect "$work/half" --tensors
check "another type" grep -q 'bf16 \[67, 24\]  model/lm_head.weight' "$work/out"

# A download cache is a folder of links.
mkdir "$work/cache"
for file in llama/*; do ln -s "$PWD/$file" "$work/cache"; done
run 1 convert "$work/cache" "$work/cache.ck"
tensors "$work/llama.ck" >"$work/a"
tensors "$work/cache.ck" >"$work/b"
check "links are followed" cmp "$work/a" "$work/b"

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
  [ "$name" != gpt2 ] || check "its dropout is said" \
    grep -q 'dropout .*resid_pdrop = 0.1.* model.dropout.residual = 0' "$work/out"
  run 1 convert "$work/$name.run" "$work/$name.tuned"
  check "$name is exported" test "$status" = 0
  check "$name keeps its tokenizer" cmp $name/tokenizer.json "$work/$name.tuned/tokenizer.json"
  run 1 evaluate "$work/$name.run" tokens.h5 --logits "$work/a.h5"
  run 1 evaluate "$work/$name.tuned" tokens.h5 --logits "$work/b.h5"
  check "$name has the same logits outside" "$H5_COMPARE" "$work/a.h5" "$work/b.h5" 1e-6
  check "$name has learned" not_close "$work/a.h5" $name.h5
done
# Samples may be shorter than learned positions, which all stay.
short="model.from=gpt2 model.sequence=8 run.directory=$work/short"
run 2 train "$work/deck.toml" $short run.steps=1 parallel.context=2 data.paths='["tokens.h5"]' \
  optimizer.learning_rate=0
check "samples are shorter than the positions" test "$status" = 0
run 1 convert "$work/short" "$work/short.out"
check "which are all there" cmp gpt2/config.json "$work/short.out/config.json"
run 1 evaluate "$work/short.out" tokens.h5 --logits "$work/a.h5"
check "and as they were" "$H5_COMPARE" "$work/a.h5" gpt2.h5 2e-5
run 1 train "$work/deck.toml" run.steps=1 model.from=llama model.sequence=8 run.directory="$work/shorter" \
  data.paths='["tokens.h5"]' optimizer.learning_rate=0
for model in "$work/short" gpt2 "$work/shorter" llama; do
  run 1 generate "$model" --prompt-tokens 1,2,3,4,5,6,7,8,9,10 --tokens 4 --temperature 0
  check "$model goes on behind ten tokens" test "$status" = 0
  tail -n 1 "$work/out" >"$work/$(basename "$model").text"
done
check "texts may have all of them" cmp "$work/short.text" "$work/gpt2.text"
check "rotary ones, too" cmp "$work/shorter.text" "$work/llama.text"
run 1 train "$work/deck.toml" $short run.steps=1 model.sequence=32 data.paths='["tokens.h5"]' --check
check "but no more" expect 65 'has 16 positions, .* write a smaller model.sequence'
run 1 train "$work/deck.toml" run.steps=1 model.from="$work/llama.ck" model.sequence=32 \
  data.paths='["tokens.h5"]' --check
check "nor of a checkpoint that was a folder" expect 65 'has 16 positions, .* write a smaller model.sequence'
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
# A file whose name no checkpoint can hold is left out, with a warning before the first step.
cp -r llama "$work/spaces" && echo '{}' >"$work/spaces/my notes.json"
for check in --check ""; do
  run 2 train "$work/deck.toml" run.steps=1 run.directory="$work/spaces.run" parallel.tensor=2 \
    model.from="$work/spaces" data.paths='["tokens.h5"]' optimizer.learning_rate=1e-3 $check
  check "a name with a space $check" test "$status" = 0
  check "is said not to be kept $check" \
    test "$(grep -c "warning: .*/spaces: the file 'my notes.json' is not kept" "$work/out")" = 1
done
run 1 convert "$work/spaces" "$work/spaces.ck"
check "a checkpoint without it" test "$status" = 0
check "the tokenizer is kept" sh -c "'$TRIREME' inspect '$work/spaces.run' --tensors | grep folder/tokenizer.json"
# The folder may be gone when the run resumes: its own deck has what was read there.
mv "$work/spaces" "$work/moved"
run 2 train "$work/deck.toml" run.steps=2 run.directory="$work/spaces.run" parallel.tensor=2 \
  model.from="$work/spaces" data.paths='["tokens.h5"]' optimizer.learning_rate=1e-3
check "the folder is gone" expect 66 'model.from = .*give the deck.toml of run.directory'
run 2 train "$work/spaces.run/deck.toml" run.steps=2 'model.from=""'
check "the run goes on without it" test "$status" = 0
check "from its checkpoint" grep -q 'resume .*step 1' "$work/out"

# 5. The five commands of docs/models.md as they stand there, with its deck, on a small
# model that has a tokenizer, two ranks and short sequences.
mkdir "$work/fine" "$work/fine/texts" && cd "$work/fine" || exit 1
head -c 4000 "$SOURCE/README.md" >texts/one.txt
head -c 9000 "$SOURCE/CONTRIBUTING.md" >texts/two.txt
tail -c 2000 "$SOURCE/CONTRIBUTING.md" >held-out.txt
run 1 train "$work/deck.toml" run.steps=1 run.directory=made model.vocabulary=300 \
  data.source=synthetic model.layers=2 model.hidden=24 model.heads=4
run 1 convert made MODEL
run 1 tokenize --train 300 texts/one.txt -o MODEL/tokenizer.json
page() { awk -v kind="$1" '/^## / { here = $0 == "## Fine-tuning" }
  here && $0 == "```" { on = 0 } on { print } here && $0 == "```" kind { on = 1 }' \
  "$SOURCE/docs/models.md"; }
page toml | sed 's/^steps = .*/steps = 4/; s/^sequence = .*/sequence = 16/' >fine-tune.toml
trireme() { "$TRIREME" "$@"; }
mpirun() { "$MPIRUN" -n 2 "$TRIREME" "${@:4}"; }
page bash >commands
check "the page has five commands" test "$(grep -c trireme commands)" = 5
while IFS= read -r line; do
  eval "$line" >"$work/out" 2>&1 </dev/null
  check "${line%%#*}" test $? = 0
done <commands
check "the folder has the type that was asked for" grep -q '"dtype": "bfloat16"' tuned/config.json
check "what was written has the tokenizer" cmp MODEL/tokenizer.json tuned/tokenizer.json
finish
