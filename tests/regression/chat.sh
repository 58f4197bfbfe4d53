#!/bin/bash
# Conversations as data: the loss on what was asked for, the same on every mesh.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
tokenizer=$work/tokenizer
chat_tokenizer "$tokenizer"
for i in $(seq 24); do
  words=$(seq -s ' ' "$i")
  echo "{\"messages\":[{\"role\":\"user\",\"content\":\"Count to $i.\"},{\"role\":\"assistant\",\"content\":\"$words\"}]}"
  echo "{\"prompt\":\"$i + $i =\",\"completion\":\" $((2 * i))\"}"
done >"$work/chat.jsonl"
grep messages "$work/chat.jsonl" >"$work/turns.jsonl"

# talk NAME RANKS OPTION...: a run in $work/NAME.
talk() {
  local name=$1 ranks=$2
  shift 2
  run "$ranks" train $deck run.directory="$work/$name" run.steps=6 data.source=chat \
    "data.paths=[\"$work/chat.jsonl\"]" data.tokenizer="$tokenizer" model.vocabulary=300 \
    batch.global=8 "$@"
}
turns() {
  local name=$1 ranks=$2
  shift 2
  talk "$name" "$ranks" "data.paths=[\"$work/turns.jsonl\"]" data.loss_on=assistant "$@"
}
same_losses() {
  field "$work/$1/metrics.jsonl" loss >"$work/a"
  field "$work/$2/metrics.jsonl" loss >"$work/b"
  [ "$(wc -l <"$work/a")" = 6 ] && close_values "$work/a" "$work/b" 1e-9
}
differ() { ! same_losses "$1" "$2"; }

talk one 1
check "a run on conversations" [ "$status" = 0 ]
check "says what is learned" grep -q 'chat: 1 file, 48 conversations, .* % of them learned' "$work/out"
for packing in concatenate best_fit; do
  turns $packing 1 data.packing=$packing
  for mesh in parallel.tensor=2 parallel.context=2 parallel.pipeline=2 batch.micro=2; do
    turns $packing-$mesh 2 data.packing=$packing $mesh
    check "$packing with $mesh on two ranks" same_losses $packing $packing-$mesh
  done
done
turns padded 1
turns padded2 4 parallel.context=2 batch.micro=2
check "padded, on data and context ranks" same_losses padded padded2
check "packing changes what a step learns from" differ padded best_fit
turns all 1 data.loss_on=all
check "and so does the loss on all tokens" differ padded all

# Tokens that are not learned leave losses as they are: only their number counts.
turns part 1 checkpoint.every=3 debug.fault=kill@5@0
turns part 1 checkpoint.every=6
turns whole 1 checkpoint.every=6
check "a resume goes on to the bit" identical part whole

talk blend 2 data.source=blend data.paths=[] \
  "data.blend=[\"0.5 chat $work/turns.jsonl\",\"0.5 text README.md\"]"
check "blended with text" [ "$status" = 0 ]
talk valid 1 "data.validation_paths=[\"$work/turns.jsonl\"]" metrics.validate_every=3
check "validation on conversations" grep -q validation_loss "$work/valid/metrics.jsonl"
# The first sample of a conversation with a long question holds nothing but the question.
echo "{\"messages\":[{\"role\":\"user\",\"content\":\"$(seq -s ' ' 400)\"},{\"role\":\"assistant\",\"content\":\"yes\"}]}" \
  >"$work/long.jsonl"
turns without 1 data.packing=concatenate metrics.validate_sequences=1 metrics.validate_every=3 \
  "data.validation_paths=[\"$work/long.jsonl\"]"
check "validation without a target" [ "$status" = 0 ]
check "it says so" grep -q 'this validation has no loss' "$work/out"
check "and records no loss" [ -z "$(field "$work/without/metrics.jsonl" validation_loss)" ]

# What is refused.
echo '{"messages":[{"role":"user"' >>"$work/turns.jsonl"
turns bad 1
check "a broken line" expect 65 "turns.jsonl:25: is no JSON"
talk bad 1 data.loss_on=assistant
check "texts have no turns" expect 65 "chat.jsonl:2: is a text without turns"
echo '{% for m in range(99999) %}{% for n in range(99999) %}x{% endfor %}{% endfor %}' >"$work/endless.jinja"
talk bad 1 data.chat_template="$work/endless.jinja"
check "a template without end" expect 65 "endless.jinja:1: it "
echo '{{ strftime_now("%Y") }}{{ messages[0].content }}' >"$work/dated.jinja"
talk bad 1 data.chat_template="$work/dated.jinja"
check "a template that asks for the date" expect 65 "set data.template_date"
talk dated 1 data.chat_template="$work/dated.jinja" 'data.template_date="2026-01-31"'
check "and is told one" [ "$status" = 0 ]
talk bad 1 data.chat_template="$work/none.jinja"
check "a template that is not there" expect 66 "none.jinja"
check "nothing was begun" [ ! -e "$work/bad/metrics.jsonl" ]
finish
