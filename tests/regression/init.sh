#!/bin/bash
# `trireme init`: scripted answers give decks and job scripts that pass --check and train.
# SPDX-License-Identifier: Apache-2.0
source "$(dirname "$0")/lib.sh"
mkdir "$work/here" "$work/bin"
cd "$work/here" || exit 1
unset SLURM_NTASKS SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU

ended_well() { [ "$status" = 0 ]; }
out_has() { grep -q -- "$1" "$work/out"; }
# answers LINES...: runs init with these lines as answers; words of init in $words.
words=()
answers() {
  printf '%s\n' "$@" >"$work/answers"
  "$TRIREME" init "${words[@]}" <"$work/answers" >"$work/out" 2>&1
  status=$?
}
seq 2000 >text.txt

# Six questions without weights; wrong answers are asked for again.
answers nonsense small none.txt text.txt 0 2 64 many 4 3
check "answered" ended_well
check "six questions" test "$(grep -c '? .*\] ' "$work/out")" -ge 6
check "wrong answers are told" out_has "'many' is no whole number"
check "what was asked again" test "$(grep -c 'Which model' "$work/out")" = 2
check "bytes of the text" grep -q '^source = "bytes"' small.toml
check "every key has a comment" test \
  "$(grep -c '^[a-z_]* = ' small.toml)" = "$(grep -B1 '^[a-z_]* = ' small.toml | grep -c '^#')"
command -v sbatch >/dev/null || check "no script without Slurm" test ! -e small.sbatch
rm -f small.sbatch
run 1 train small.toml --check --ranks 2
check "passes --check" ended_well
run 2 train small.toml
check "trains" ended_well
check "three steps" test "$(grep -cE '"kind": ?"step"' runs/small/metrics.jsonl)" = 3

# It replaces nothing, and an end of input is no answer.
cp small.toml before
words=(small --yes)
answers
check "it is there already" expect 73 "is there already"
check "and stays" cmp small.toml before
words=()
answers small synthetic
check "answers that end" expect 64 "standard input ended"
words=(small --yes --ranks x)
answers
check "an option's answer is final" expect 64 "no whole number"
words=(no-such-model --yes)
answers
check "no such model" expect 66 "no model of that name"
words=(small --yes --data none.h5)
answers
check "no such data" expect 66 "no such file"
words=(small --yes --ranks 3 --batch 4 -o odd.toml)
answers
check "a batch that no mesh takes" test "$status" = 65 -o "$status" = 0
words=(small --yes --ranks 13 --batch 8 -o odd-13.toml)
answers
check "ranks that no mesh takes" expect 65 "no deck for 13 ranks: 8 sequences a step"
words=(small --yes --ranks 2 --sequence 1 -o short.toml)
answers
check "sequences of a token" ended_well
run 1 train short.toml --check --ranks 2
check "pass --check" ended_well
rm -f short.sbatch
words=(small --yes --train lora -o odd-lora.toml)
answers
check "no weights to go on from" expect 64 "has no weights here"
words=(small --yes -o .toml)
answers
check "no name" expect 64 "ends in .toml"
sed 's/^memory .*/memory = 0.1/' "$SOURCE/inputs/machines/h100-sxm.toml" >tight.toml
words=(125m --yes --ranks 1 --machine tight.toml -o tight-deck.toml)
answers
check "nothing fits" expect 78 "the least that one needs"
check "nothing is left of them" test -z "$(find . -name 'tight-deck*')"
words=(small --yes --ranks 1 -o alone.toml)
answers
check "one rank" test -n "$(grep '^wrote .*: 1 rank, ' "$work/out")" -a -n "$(grep 'parameters on 1 rank, made' alone.toml)"
rm -f alone.sbatch

# Data are known by their first file, and of JSON lines by the members of the first.
chat_tokenizer "$work/tokenizer"
mkdir -p flat deep/below chats
cp text.txt flat/a.txt
cp text.txt flat/b.txt
cp text.txt deep/below/a.txt
read_as() {  # NAME SOURCE DATA [OPTION ...]: a deck of this source, that passes --check.
  local name=$1 source=$2 data=$3
  shift 3
  words=(small --yes --ranks 1 --batch 4 --steps 2 --sequence 64 --data "$data" -o "kind-$name.toml" "$@")
  answers
  check "$name: written" ended_well
  check "$name: is $source" grep -q "^source = \"$source\"" "kind-$name.toml"
  run 1 train "kind-$name.toml" --check --ranks 1
  check "$name: passes --check" ended_well
}
with_tokenizer=(--tokenizer "$work/tokenizer")
turn='{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}'
lines() { for _ in 1 2 3 4 5 6 7 8; do echo "$2"; done >"$1"; }
lines messages.jsonl "{\"messages\":[$turn]}"
lines share.jsonl '{"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Ho"}]}'
lines alpaca.jsonl '{"instruction":"Say Ho","output":"Ho"}'
lines completion.jsonl '{"prompt":"Hi","completion":" Ho"}'
lines pairs.jsonl '{"prompt":"Hi","chosen":" Ho","rejected":" No"}'
lines turns.jsonl "{\"chosen\":[$turn],\"rejected\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"No\"}]}"
lines text.jsonl '{"text":"A text that is about \"messages\" and \"chosen\" ones, as long as it takes."}'
gzip -k share.jsonl
cp messages.jsonl chats/
for name in messages share alpaca completion; do read_as $name chat $name.jsonl "${with_tokenizer[@]}"; done
read_as packed chat share.jsonl.gz "${with_tokenizer[@]}"
read_as chats chat chats/ "${with_tokenizer[@]}"
read_as glob chat 'm*.jsonl' "${with_tokenizer[@]}"
for name in pairs turns; do
  read_as $name preference $name.jsonl "${with_tokenizer[@]}"
  check "$name: the objective" grep -q '^objective = "dpo"' kind-$name.toml
done
run 1 train kind-pairs.toml
check "pairs train" ended_well
read_as lines text text.jsonl "${with_tokenizer[@]}"
read_as folder text deep "${with_tokenizer[@]}"
read_as flat bytes flat
check "its files" grep -qxF 'paths = ["flat/*"]' kind-flat.toml
words=(small --yes --data deep -o odd-deep.toml)
answers
check "folders in a folder without a tokenizer" expect 64 "deep: has folders in it, .*give --tokenizer"
words=(small --yes --data pairs.jsonl -o odd-pairs.toml)
answers
check "pairs without a tokenizer" expect 64 "pairs.jsonl holds pairs of answers, .*give --tokenizer"
words=(small --yes --data 'none*' -o odd-glob.toml)
answers
check "a glob of no file" expect 66 "none.*matches no file"
words=(small --yes --data text.txt --tokenizer none -o odd-tokenizer.toml)
answers
check "no such tokenizer" expect 66 "--tokenizer: none: "
run 1 tokenize flat --tokenizer "$work/tokenizer" -o chats/a.h5
words=(small --yes --data chats "${with_tokenizer[@]}" -o odd-tokens.toml)
answers
check "a folder of token files" expect 64 "chats: is a folder of token files"

# A folder's shape with Slurm there: a job script.
cat >config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
 "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 128,
 "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "hidden_act": "silu", "attention_bias": false, "torch_dtype": "float32"}
END
printf '#!/bin/bash\n' >"$work/bin/sbatch"
cat >"$work/bin/srun" <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
END
chmod +x "$work/bin/"*
export PATH=$work/bin:$PATH
words=(config.json --yes --ranks 2 --batch 4 --steps 2 -o 'my deck.toml')
answers
check "with Slurm" ended_well
check "bash reads the script" bash -n 'my deck.sbatch'
common() { sed -n '/^# From here on all job scripts/,$p' "$1"; }
check "it ends as all job scripts" cmp <(common 'my deck.sbatch') \
  <(common "$SOURCE/jobs/train.sbatch")
(cd "$work" && SLURM_JOB_ID=1 bash 'here/my deck.sbatch' --check --ranks 2) >"$work/out" 2>&1
check "its job passes --check" out_has 'the deck is good'
words=(config.json --yes)
answers
check "a model's name" test -s here.toml
# Wherever it will run: by a machine file, without a GPU here.
words=(config.json --yes --ranks 16 --machine "$SOURCE/inputs/machines/h100-sxm.toml" -o far.toml)
answers
check "for another machine" ended_well
check "16-bit there" grep -q '^compute = "bf16"' far.toml
check "the time of a step" grep -q 'A step is predicted to take' far.toml
check "its GPUs" grep -q '^#SBATCH --gpus-per-node=8' far.sbatch
check "its nodes" grep -q '^#SBATCH --nodes=2' far.sbatch
run 1 train far.toml --check --ranks 16 run.device=cpu
check "passes --check too" ended_well

# A folder with weights: adapters beside them.
words=(small --yes --data text.txt --ranks 1 --sequence 64 --batch 4 --steps 1 -o one.toml)
answers
run 1 train one.toml
run 1 convert runs/one model
check "a folder with weights" ended_well
words=()
answers model lora text.txt 1 64 2 1
check "adapters" ended_well
check "from the folder" grep -q '^from = "model"' model.toml
check "of a rank" grep -q '^rank = 16' model.toml
run 1 train model.toml
check "train" ended_well
finish
