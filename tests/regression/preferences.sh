#!/bin/bash
# Pairs of answers as data (DPO): the same on every mesh, a resume to the bit, bad input.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
tokenizer=$work/tokenizer
chat_tokenizer "$tokenizer"
for i in $(seq 12); do
  echo "{\"prompt\":\"$i + $i =\",\"chosen\":\" $((2 * i))\",\"rejected\":\" $((2 * i + 1)) or so\"}"
  echo "{\"chosen\":[{\"role\":\"user\",\"content\":\"Add $i.\"},{\"role\":\"assistant\",\"content\":\"Yes: $i\"}],\"rejected\":[{\"role\":\"user\",\"content\":\"Add $i.\"},{\"role\":\"assistant\",\"content\":\"No.\"}]}"
done >"$work/pairs.jsonl"
head -n 8 "$work/pairs.jsonl" >"$work/held.jsonl"

# prefer NAME RANKS OPTION...: a run in $work/NAME.
prefer() {
  local name=$1 ranks=$2
  shift 2
  run "$ranks" train $deck run.directory="$work/$name" run.steps=6 train.objective=dpo \
    data.source=preference "data.paths=[\"$work/pairs.jsonl\"]" data.tokenizer="$tokenizer" \
    model.vocabulary=300 model.sequence=96 batch.global=8 "$@"
}
same_losses() {
  for key in loss rewards_margin logps_rejected; do
    field "$work/$1/metrics.jsonl" $key >"$work/a"
    field "$work/$2/metrics.jsonl" $key >"$work/b"
    [ "$(wc -l <"$work/a")" = 6 ] && close_values "$work/a" "$work/b" 1e-9 || return 1
  done
}
first_is() { awk -v x="$(field "$1" "$2" | head -1)" -v y="$3" 'BEGIN { d = x - y; exit !(d < 1e-12 && d > -1e-12) }'; }
last_over() { awk -v x="$(field "$1" "$2" | tail -1)" -v y="$3" 'BEGIN { exit !(x > y) }'; }

prefer one 1
check "a run on pairs" [ "$status" = 0 ]
check "says what they are" grep -q 'preference: 1 file, 24 pairs of answers, .* 24 samples' "$work/out"
check "begins at the reference: ln 2" first_is "$work/one/metrics.jsonl" loss 0.693147180559945309
check "where both answers have no reward" first_is "$work/one/metrics.jsonl" rewards_margin 0
check "and learns which is preferred" last_over "$work/one/metrics.jsonl" rewards_margin 0.01
for packing in none best_fit; do
  prefer $packing 1 data.packing=$packing batch.global=4
  check "packing $packing" [ "$status" = 0 ]
  for mesh in parallel.tensor=2 parallel.context=2 parallel.pipeline=2 \
    parallel.sharding_strategy=FULL_SHARD; do
    prefer $packing-$mesh 2 data.packing=$packing batch.global=4 $mesh
    check "$packing with $mesh on two ranks" same_losses $packing $packing-$mesh
  done
done
prefer four 4 parallel.context=2 parallel.pipeline=2 batch.micro=2
prefer alone 1 batch.micro=4
check "on four ranks, and four pairs at a time" same_losses four alone
for loss in robust hinge ipo; do
  prefer $loss 1 train.dpo.loss=$loss
  check "$loss" last_over "$work/$loss/metrics.jsonl" rewards_margin 0.01
done

# The deck that comes with the program, for another model.
run 1 convert "$work/one" "$work/model"
run 1 train inputs/dpo.toml --check model.from="$work/model" data.tokenizer="$tokenizer" \
  "data.paths=[\"$work/pairs.jsonl\"]" model.sequence=96
check "the deck of the examples" [ "$status" = 0 ]

# A resume reads what the model at the start made of the answers.
prefer part 2 checkpoint.every=3 debug.fault=kill@5@0
prefer part 2 checkpoint.every=6
prefer whole 2 checkpoint.every=6
check "a resume goes on to the bit" identical part whole

# A start that ends while the reference is asked goes on behind what is written.
prefer killed 2 checkpoint.every=6 debug.fault=kill_reference@5@1
check "killed while the reference is asked" [ ! -e "$work/killed/checkpoints" ]
check "in the middle of it" [ -s "$work/killed/reference.h5" ]
prefer killed 2 checkpoint.every=6
check "the rounds before are kept" grep -q 'of 6 of 24 samples (training) are those of an earlier start' "$work/out"
check "and the run is the same to the bit" identical killed whole
mkdir "$work/asked"
for done in 2 4; do
  touch "$work/asked/stop"
  prefer asked 2 checkpoint.every=6
  check "asked to stop after $done samples" [ "$status" = 75 ]
  check "says how far it is" grep -q "a file named stop, with reference log-probabilities of $done of 24 samples (training) in" "$work/out"
done
check "the request is taken" [ ! -e "$work/asked/stop" ]
cp "$work/asked/reference.h5" "$work/early.h5"
prefer asked 2 checkpoint.every=6
check "a stopped one is the same to the bit" identical asked whole
rm "$work/asked/reference.h5"
prefer asked 2 checkpoint.every=6
check "a run that is done needs no reference" [ "$status" = 0 ]
check "and says that it is" grep -q 'nothing to do: 6 of 6 steps are done' "$work/out"
# again NAME: a start of a run without a step, which has $work/NAME.h5 from before.
again() {
  mkdir "$work/$1"
  mv "$work/$1.h5" "$work/$1/reference.h5"
  prefer "$@"
}
cp "$work/early.h5" "$work/meshes.h5"
again meshes 1 checkpoint.every=6
check "on another mesh all is computed again" grep -q 'warning: .*with other settings, or on another mesh' "$work/out"
head -c 2000 "$work/early.h5" >"$work/cut.h5"
again cut 2 checkpoint.every=6
check "so it is when the file is cut off" grep -q 'warning: .*the model at the start is asked for all answers again' "$work/out"
check "and gives the same bits" identical cut whole
for from in one hinge; do
  rm -rf "$work/from"
  cp -r "$work/$from" "$work/from"
  prefer moved 1 model.from="$work/from" debug.fault=kill_reference@3@0
done
check "another model at the same place is found out" grep -q 'warning: reference.h5: another model' "$work/out"
cp "$work/early.h5" "$work/whole/reference.h5"
prefer whole 2 run.steps=7
check "what is not whole is not taken by a run with steps" expect 65 "holds 4 of 24 samples"
prefer valid 1 "data.validation_paths=[\"$work/held.jsonl\"]" metrics.validate_every=3
check "validation on pairs" [ "$(field "$work/valid/metrics.jsonl" validation_accuracy | wc -l)" = 2 ]
prefer valid2 2 "data.validation_paths=[\"$work/held.jsonl\"]" metrics.validate_every=3 \
  parallel.context=2
field "$work/valid/metrics.jsonl" validation_loss >"$work/a"
field "$work/valid2/metrics.jsonl" validation_loss >"$work/b"
check "the same on context ranks" close_values "$work/a" "$work/b" 1e-9
run 1 inspect $deck train.objective=dpo data.source=preference \
  "data.paths=[\"$work/pairs.jsonl\"]" data.tokenizer="$tokenizer" model.vocabulary=300 \
  model.sequence=96 run.steps=6
check "inspect shows a pair" grep -q '<|endoftext|>' "$work/out"
run 2 plan $deck train.objective=dpo data.source=preference \
  "data.paths=[\"$work/pairs.jsonl\"]" data.tokenizer="$tokenizer" model.vocabulary=300 \
  parallel.context=2
check "a plan" [ "$status" = 0 ]

# What is refused, by --check as by the run.
goes_on() {
  local what=$1 status_wanted=$2 words=$3 name=$4
  shift 4
  prefer "$name" 2 run.steps=7 "$@" --check
  check "$what: --check" expect "$status_wanted" "$words"
  prefer "$name" 2 run.steps=7 "$@"
  check "$what" expect "$status_wanted" "$words"
}
held=("data.validation_paths=[\"$work/held.jsonl\"]" metrics.validate_every=3)
prefer part 2 run.steps=7 --check
check "a run that can go on is good" grep -q 'the deck is good' "$work/out"
goes_on "other samples" 65 "is of other pairs of answers" part model.sequence=95
goes_on "other packing" 65 "is of other pairs of answers" part data.packing=best_fit
goes_on "validation that was not there" 65 "holds no validation" part "${held[@]}"
sed 's/Yes/Aye/' "$work/held.jsonl" >"$work/held2.jsonl"
goes_on "other pairs to validate" 65 "validation/log_probabilities is of other pairs" valid \
  metrics.validate_every=3 "data.validation_paths=[\"$work/held2.jsonl\"]"
run 2 train $deck run.directory="$work/tokens" run.steps=6 model.vocabulary=300 \
  model.sequence=96 batch.global=8
goes_on "a checkpoint of another objective" 66 "reference.h5" tokens
rm "$work/part/reference.h5"
goes_on "without the reference" 66 "reference.h5" part
prefer part 2 --check
check "of which a run that is done has no need" grep -q 'the deck is good' "$work/out"
cp "$work/one/reference.h5" "$work/part/reference.h5"
head -n 23 "$work/pairs.jsonl" >"$work/other.jsonl"
goes_on "other pairs" 65 "is of other pairs of answers" part "data.paths=[\"$work/other.jsonl\"]"
head -c 1500 "$work/one/reference.h5" >"$work/part/reference.h5"
goes_on "a reference that is cut off" 65 "reference.h5" part
echo '{"prompt":"x","chosen":"y"}' >>"$work/other.jsonl"
prefer bad 2 "data.paths=[\"$work/other.jsonl\"]"
check "a line without an answer" expect 65 'other.jsonl:24: has no "rejected"'
prefer bad 1 model.sequence=4
check "no pair that fits" expect 65 "model.sequence, which holds both answers"
prefer bad 1 data.packing=concatenate
check "packing that cuts" expect 65 "write data.packing = \"best_fit\""
prefer bad 1 train.objective=next_token
check "pairs without the objective" expect 65 "train.objective = \"dpo\""
prefer bad 1 train.dpo.beta=0
check "no beta" expect 64 "train.dpo.beta"
finish
