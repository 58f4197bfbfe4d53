#!/usr/bin/env bash
# Lost output, hostile text, extreme numbers and wrong command lines.
# SPDX-License-Identifier: Apache-2.0
# Each has its status and its one message.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
base="precision.compute=fp32 checkpoint.every=2 optimizer.schedule.name=constant optimizer.schedule.warmup=0"

# 1. A run in a directory that is named like a checkpoint.
one=$work/step-00000007
run 1 train $deck $base run.directory="$one" run.steps=4
check "training" test "$status" = 0
for command in "inspect $one" "inspect $one/" "inspect $one --verify" "report $one" \
  "inspect $one/checkpoints/step-00000002" "generate $one --prompt ab --tokens 2" \
  "evaluate $one LICENSE"; do
  run 1 $command
  check "$command" test "$status" = 0
done
cp -r "$one/checkpoints/step-00000004" "$work/step-00000009"
rm "$work/step-00000009/"{manifest.json,checkpoint.h5}
run 1 inspect "$work/step-00000009"
check "a checkpoint without its manifest is damaged" expect 65 manifest

# 2. Standard output that cannot be written, is closed, or has lost its reader.
lost() {  # lost REDIRECTION ARGS...: 74 and one message on standard error
  local to=$1
  shift
  if [ "$to" = closed ]; then
    timeout 60 "$TRIREME" "$@" >&- 2>"$work/out"
  else
    timeout 60 "$TRIREME" "$@" >"$to" 2>"$work/out"
  fi
  status=$?
  expect 74 'standard output'
}
for command in --version help "help deck" "help schema" "help man" "inspect $one" \
  "inspect $one --verify" "plan $deck" "train $deck --check" "report $one" \
  "generate $one --prompt ab --tokens 2" "evaluate $one LICENSE"; do
  check "$command to a full disk" lost /dev/full $command
done
check "help to nowhere" lost closed help
check "inspect to nowhere" lost closed inspect "$one"
"$TRIREME" sweep $deck $base --grid run.seed=1,2 --directory "$work/sweep" >"$work/out" 2>&1
check "sweep --status to a full disk" lost /dev/full sweep --status "$work/sweep/sweep.toml"
check "sweep --resubmit to a full disk" lost /dev/full sweep --resubmit "$work/sweep/sweep.toml"
"$TRIREME" help 2>"$work/out" | head -1 >/dev/null
check "a reader that has enough is no error" test ! -s "$work/out"
timeout 60 "$MPIRUN" -n 2 sh -c 'exec "$@" >/dev/full' sh "$TRIREME" inspect "$one" \
  >"$work/out" 2>&1
status=$?
check "on two ranks" expect 74 'standard output'

# 3. A run outlives its log, and its checkpoints are whole.
run_lost() {  # run_lost NAME: the run of that name was trained with its log lost
  expect 74 'standard output' || return 1
  grep -q 'trireme: warning: standard output: .*the run goes on' "$work/out" || return 1
  [ "$(wc -l <"$work/$1/metrics.jsonl")" -ge 4 ] || return 1
  grep -q '^status = 0' "$work/$1/status.toml" || return 1
  "$TRIREME" inspect "$work/$1" --verify | grep -q 'step 4'
}
timeout 60 "$TRIREME" train $deck $base run.directory="$work/full" run.steps=4 \
  >/dev/full 2>"$work/out"
status=$?
check "a log on a full disk" run_lost full
timeout 60 "$TRIREME" train $deck $base run.directory="$work/closed" run.steps=4 \
  >&- 2>"$work/out"
status=$?
check "a log that is closed" run_lost closed
timeout 60 "$TRIREME" train $deck $base run.directory="$work/pipe" run.steps=4 \
  2>"$work/out" | :
status=${PIPESTATUS[0]}
check "a log without a reader" run_lost pipe
timeout 60 "$TRIREME" train $deck $base run.directory="$work/none" run.steps=4 \
  <&- >&- 2>&-
check "with no descriptor at all" test $? = 74
run 1 inspect "$work/none" --verify
check "its checkpoint holds no log" test "$status" = 0

# 4. Numbers at the ends of their range in metrics.jsonl.
for number in 1e-310 -1e-310 5e-324 1e308 1e-400 1e400 null NaN -0.0 99999999999999999999; do
  rm -rf "$work/number"
  cp -r "$one" "$work/number"
  sed -i "s/\"loss\": [^,]*/\"loss\": $number/; s/\"grad_norm\": [^,]*/\"grad_norm\": $number/" \
    "$work/number/metrics.jsonl"
  run 1 report "$work/number" --output "$work/number/page.md"
  check "a report of a loss of $number" test "$status" = 0
  check "its plots of $number" test -z "$(grep -lE '[ ,"]-?(nan|inf)' "$work/number/"*.svg)"
  run 1 train $deck $base run.directory="$work/number" run.steps=5 health.spike=skip \
    health.spike_window=2
  check "resumed after a loss of $number" test "$status" = 0
done

# 5. Hostile names and messages in a report.
name='<img src=x onerror=f()>|`$(id)`[x](javascript:f) **b**'
mkdir "$work/$name"
cat >"$work/$name/status.toml" <<'STATUS'
state = "ended"
status = 70
message = "| <script>alert(1)</script> ![i](http://x) \u001b]0;t\u0007"
[[starts]]
step = 1
ranks = 2
host = "a|b<script>&\n## c"
STATUS
cp "$one/metrics.jsonl" "$work/$name/"
run 1 report "$work/$name" "$one" --output "$work/pages/a b%20(c).md"
check "a report of hostile text" test "$status" = 0
page=$work/pages/'a b%20(c).md'
check "no tag in the page" test -z "$(grep -E '<(script|img)|[^\\]\[x\]|[^\\]`' "$page")"
check "as many columns in each row" test -z \
  "$(sed 's/\\|//g' "$page" | grep '^| ' | awk -F'|' '{ print NF }' | sort -u | grep -vE '^(12|6|5)$')"
check "the plots are where the page says" test -f \
  "$work/pages/$(grep -o '(a%20[^)]*loss.svg)' "$page" | head -1 | tr -d '()' |
    sed 's/%20/ /g; s/%25/%/g; s/%28/(/g; s/%29/)/g')"
check "no tag in a picture" test -z "$(grep -l '<script\|<img' "$work/pages/"*.svg)"
run 1 sweep --status "$work/sweep/sweep.toml"
check "the state of a sweep" test "$status" = 0
# A terminal gets no control characters.
run 1 train $'/no\033]0;title\007.toml'
check "a name with control characters" expect 66 '/no?\]0;title?.toml'

# 6. What a page would overwrite.
mkfifo "$work/fifo.md"
ln -s "$work/target" "$work/link.md"
pages=("$work/fifo.md" "$work/link.md" "$work")
mknod "$work/device.md" c 1 7 2>/dev/null && pages+=("$work/device.md")  # needs rights
for output in "${pages[@]}"; do
  run 1 report "$one" --output "$output"
  check "a report to $output" expect 73 "$output"
done
check "the pipe is still there" test -p "$work/fifo.md"
check "and nothing beside the link's target" test ! -e "$work/target"

# 7. Data that are not there name the key and its place.
cat >"$work/deck.toml" <<'DECK'
run.steps = 1
model = { layers = 1, hidden = 32, heads = 2, sequence = 16 }
data.paths = ["LICENSE", "nothing-*.txt"]
batch.global = 2
DECK
run 1 train --check "$work/deck.toml"
check "no data for the deck" expect 66 'deck.toml:3:14: data.paths: nothing-\*.txt: matches no file'
run 1 train --check "$work/deck.toml" 'data.paths=["none"]'
check "no data for an override" expect 66 'command line: data.paths: none: no such file'

# 8. Command lines that are wrong.
wrong() {  # wrong WORDS ARGS...
  local words=$1
  shift
  run 1 "$@"
  check "$*" expect 64 "$words"
}
wrong "unknown command 'trian'; did you mean 'train'" trian
wrong "unknown command 'export'; did you mean 'convert'" export
wrong "unknown command '/etc/passwd'; see" /etc/passwd
wrong 'unknown option --rank; did you mean --ranks?' plan $deck --rank 4
wrong 'unknown option -n$' train $deck -n 4
wrong "--ranks '4x': a whole number from 1" plan $deck --ranks 4x
wrong "--ranks '1e3': a whole number" plan $deck --ranks 1e3
wrong "--ranks '99999999999999999999'" plan $deck --ranks 99999999999999999999
wrong '--ranks is given twice' plan $deck --ranks 2 --ranks 4
wrong '--check takes no value' train $deck --check=yes
wrong '--ranks needs a value' plan $deck --ranks
wrong "if '--check' is meant" train $deck --ranks --check
wrong "--output '': the value is empty" report "$one" --output ''
wrong 'a word is empty' train ''
wrong 'an argument is missing' inspect
wrong "unexpected argument 'b'" inspect a b
wrong "unexpected argument 'x'" --version x
wrong "--tokens '-1'" generate "$one" --prompt a --tokens -1
wrong "--temperature 'nan'" generate "$one" --prompt a --temperature nan
wrong "--top-p '1e400'" generate "$one" --prompt a --top-p 1e400
wrong "'4x' is no token" generate "$one" --prompt-tokens 1,4x
wrong "'' is no token" generate "$one" --prompt-tokens 1,
wrong "'99999999999999999999' is no token" generate "$one" --prompt-tokens 99999999999999999999
wrong 'give one of --prompt' generate "$one" --prompt a --prompt-tokens 1
wrong "no help on 'dek'" help dek
run 1 train --help
check "train --help" test "$status" = 0
run 1 inspect LICENSE
check "a file for a checkpoint" expect 66 'LICENSE: there is no checkpoint here, nor anything else that inspect takes'
check "what there is for a text" grep -q 'trireme tokenize LICENSE --tokenizer F' "$work/out"
run 1 inspect tests
check "a folder of other files" expect 66 'tests: there is no checkpoint here, nor'
check "how to look at a folder of texts" grep -q 'Texts in a folder are seen .* trireme tokenize tests ' "$work/out"
run 1 evaluate "$one" tests
check "a folder for data" expect 65 'tests: is a directory'

# 9. A deck of megabytes is refused before it is parsed.
{ printf 'data.paths = ['; head -c 10000000 /dev/zero | sed 's/\x00/1,/g'; echo ']'; } >"$work/big.toml"
(ulimit -v 4000000; timeout 60 "$TRIREME" train --check "$work/big.toml") >"$work/out" 2>&1
status=$?
check "a deck of 20 MB" expect 65 'big.toml: has 20000016 bytes; a deck has 1048576 at the most'
# Results that would take the place of something else.
cp $deck "$work/kept.toml"
cp LICENSE "$work/kept.txt"
cp inputs/machines/h100-sxm.toml "$work/machine.toml"
keeps() {  # keeps FILE COPY ARGS...: refused with 73, and the file is as it was
  local file=$1 copy=$2
  shift 2
  run 1 "$@"
  expect 73 "would be lost\|which would take its place\|no index beside it\|was not measured" && cmp -s "$file" "$copy"
}
check "bench over a deck" keeps "$work/kept.toml" $deck bench --machine "$work/kept.toml" --quick
check "bench over a data sheet" keeps "$work/machine.toml" inputs/machines/h100-sxm.toml \
  bench --machine "$work/machine.toml" --quick
check "a search over its machine" keeps "$work/machine.toml" inputs/machines/h100-sxm.toml \
  plan $deck --ranks 2 --machine "$work/machine.toml" --search -o "$work/machine.toml"
check "logits over a text" keeps "$work/kept.txt" LICENSE evaluate "$one" LICENSE --logits "$work/kept.txt"
check "a page over a deck" keeps "$work/kept.toml" $deck report "$one" --output "$work/kept.toml"
check "a tokenizer over a text" keeps "$work/kept.txt" LICENSE tokenize README.md --train 300 -o "$work/kept.txt"
as_tokens="tokenize README.md --tokenizer tests/reference/tokenizers/llama3.json --end-token <|end|>"
cp LICENSE "$work/kept.idx"; cp LICENSE "$work/kept.llmc.bin"
check "llm.c's tokens over a text" keeps "$work/kept.llmc.bin" LICENSE $as_tokens --format llmc -o "$work/kept.llmc"
check "Megatron's index over a text" keeps "$work/kept.idx" LICENSE $as_tokens --format megatron -o "$work/kept"
mv "$work/kept.idx" "$work/kept.bin"
check "Megatron's tokens over other bytes" keeps "$work/kept.bin" LICENSE $as_tokens --format megatron -o "$work/kept"
for format in megatron llmc; do
  for again in 1 2; do
    run 1 $as_tokens --format $format -o "$work/$format"
    check "$format: tokens over tokens, $again" test "$status" = 0
  done
done
run 1 evaluate "$one" LICENSE --logits "$work/logits.h5"
run 1 evaluate "$one" LICENSE --logits "$work/logits.h5"
check "logits over logits" test "$status" = 0
run 1 evaluate "$one" "$work/kept.txt" --logits "$work/kept.txt"
check "logits over what is read" expect 64 "which is read"
finish
