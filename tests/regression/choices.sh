#!/usr/bin/env bash
# `evaluate --choices`: log-likelihoods as transformers has them, also on several ranks.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
model=tests/reference/choices/model
asked=tests/reference/choices/questions.jsonl

# A number a line: log-likelihoods of answers, and of the column of what is expected.
answers() { grep -o '"log_likelihoods":\[[^]]*' "$1" | sed 's/.*\[//' | tr ',' '\n'; }
expected() { grep -o "\"$1\": \[[^]]*" tests/reference/choices/expected.jsonl | sed 's/.*\[//' | tr -d ' ' | tr ',' '\n'; }
expected plain >"$work/plain"
expected special >"$work/special"

# same NAME COLUMN: the answers in $work/NAME are those expected.
same() {
  answers "$work/$1" >"$work/own"
  close_values "$work/own" "$work/$2" 2e-4
}
run 1 evaluate $model --choices $asked -o "$work/one"
check "questions are answered" test "$status" = 0
check "as by transformers" same one plain
check "a line for each" test "$(wc -l <"$work/one")" = 50
check "what is too long is told" grep -q '^[1-9][0-9]* of [0-9]* texts are longer than 40 tokens' "$work/out"
# The metrics, from the lines.
for metric in acc acc_norm acc_bytes; do
  right=$(grep -c "\"$metric\":1" "$work/one")
  check "$metric counts $right lines" grep -q \
    "$metric $(awk -v r="$right" 'BEGIN { p = r / 50; printf "%.4f \\+- %.4f", p, sqrt(p * (1 - p) / 49) }' |
      sed 's/\\+/+/')" "$work/out"
done
# The highest log-likelihood is taken: by a second way of counting.
check "acc takes the highest" test "$(grep -o '"answer":[0-9]*,"log_likelihoods":\[[^]]*' "$work/one" |
  sed 's/"answer":\([0-9]*\),"log_likelihoods":\[/\1,/' |
  awk -F, '{ best = 2; for (i = 3; i <= NF; ++i) if ($i > $best) best = i
             if (best - 2 == $1) ++right } END { print right + 0 }')" = "$(grep -c '"acc":1' "$work/one")"
run 1 evaluate $model --choices $asked -o "$work/added" --special-tokens
check "with special tokens" same added special
run 2 evaluate $model --choices $asked -o "$work/tensor"
check "on two tensor ranks" same tensor plain
run 2 evaluate $model --choices $asked -o "$work/stages" --pipeline 2
check "on two stages" same stages plain
check "whose scores have the same bits" cmp "$work/one" "$work/stages"
run 1 evaluate $model --choices $asked -o "$work/one"
check "answers are replaced by answers" test "$status" = 0

wrong() { # STATUS WORDS ARGUMENTS...
  local wanted=$1 words=$2
  shift 2
  run 2 evaluate "$@"
  check "$*" expect "$wanted" "$words"
}
echo '{"context": "a", "choices": ["b"], "answer": 1}' >"$work/outside"
{ head -2 $asked; echo '{"context": "a", "choices"'; } >"$work/broken"
: >"$work/empty"
wrong 65 'outside: line 1: the answer .1. is none of the 1 choices' $model --choices "$work/outside"
wrong 65 'broken: line 3: ' $model --choices "$work/broken"
wrong 65 'empty: has no questions' $model --choices "$work/empty"
wrong 66 'there is no such file' $model --choices "$work/nothing"
wrong 64 'would be written over' $model --choices "$work/outside" -o "$work/outside"
cp "$work/outside" "$work/mine"
wrong 73 'mine: is there already' $model --choices $asked -o "$work/mine"
wrong 64 'takes the place of' $model README.md --choices $asked
wrong 64 '-o goes with --choices' $model README.md -o "$work/x"
cp -r $model "$work/silent"
rm "$work/silent/tokenizer.json"
wrong 66 'has no tokenizer.json' "$work/silent" --choices $asked
wrong 65 'choice 1 has 14 tokens, and the model has 4' $model --choices $asked --sequence 4
finish
