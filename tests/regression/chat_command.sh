#!/usr/bin/env bash
# A conversation by scripted input: commands, history, files, interrupts, bad input.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
tokenizer=$work/tokenizer
mkdir "$tokenizer"
"$TRIREME" tokenize README.md --train 300 -o "$tokenizer/tokenizer.json" >"$work/out" 2>&1
check "a tokenizer" [ -s "$tokenizer/tokenizer.json" ]
cat >"$tokenizer/chat_template.jinja" <<'END'
{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}
END
"$TRIREME" tokenize README.md --tokenizer "$tokenizer/tokenizer.json" -o "$work/tokens.h5" >"$work/out" 2>&1
run 1 train tests/regression/tiny.toml run.directory="$work/run" run.steps=1 model.sequence=128 \
  model.vocabulary=300 batch.global=2 optimizer.schedule.warmup=0 checkpoint.every=1 \
  data.source=tokens "data.paths=[\"$work/tokens.h5\"]"
check "a model" test "$status" = 0
# talk RANKS OPTION...: what stands on standard input.
talk() {
  local ranks=$1
  shift
  local start=()
  [ "$ranks" = 1 ] || start=("$MPIRUN" -n "$ranks")
  timeout 300 "${start[@]}" "$TRIREME" chat "$work/run" --tokenizer "$tokenizer/tokenizer.json" \
    --temperature 0 --tokens 8 "$@" >"$work/out" 2>&1
  status=$?
}
printf 'Hello\nAnd \\\nmore\n/save %s\n' "$work/said.json" | talk 1 --system "Be short."
check "a conversation" test "$status" = 0
cp "$work/out" "$work/first"
check "is saved" grep -q '"role":"system","content":"Be short."},{"role":"user","content":"Hello"}' "$work/said.json"
check "with lines joined" grep -qF '"content":"And \nmore"' "$work/said.json"
check "and answers" test "$(grep -o '"role":"assistant"' "$work/said.json" | wc -l)" = 2
printf 'Hello\nAnd \\\nmore\n/save %s\n' "$work/said.json" | talk 2 --system "Be short."
check "the same on two ranks" cmp "$work/out" "$work/first"
printf 'Hello\nAnd \\\nmore\n/save %s\n' "$work/said.json" | talk 2 --system "Be short." --pipeline 2
check "and on two stages" cmp "$work/out" "$work/first"
printf '/load %s\n/save %s\n/reset\n/save %s\n/system No.\n/save %s\n/nonsense\n/help\n/quit\nHello\n' \
  "$work/said.json" "$work/again.json" "$work/reset.json" "$work/system.json" | talk 1
check "goes on from a file" cmp "$work/said.json" "$work/again.json"
check "a reset keeps what the system says" \
  test "$(cat "$work/reset.json")" = '{"messages":[{"role":"system","content":"Be short."}]}'
check "another system" grep -q 'No\.' "$work/system.json"
check "an unknown command" grep -q "no command '/nonsense'" "$work/out"
check "help" grep -q '/save FILE' "$work/out"
check "quit ends it" test "$(tail -1 "$work/out" | grep -c 'earlier lines')" = 1
# Ctrl-C does not end the program, whether it answers or waits.
mkfifo "$work/in"
set -m  # else SIGINT is ignored in the background
"$TRIREME" chat "$work/run" --tokenizer "$tokenizer/tokenizer.json" --temperature 0 --tokens 100 \
  <"$work/in" >"$work/out" 2>&1 &
pid=$!
set +m
exec 3>"$work/in"
echo Hello >&3
for _ in $(seq 400); do [ -s "$work/out" ] && break; sleep 0.05; done
kill -INT $pid
echo "/save $work/kept.json" >&3
exec 3>&-
wait $pid
status=$?
check "an interrupt does not end the program" test "$status" = 0
check "and the conversation goes on" grep -q '"content":"Hello"' "$work/kept.json"
# Keys of a terminal: within the line, earlier lines, an emptied line, letters beyond ASCII,
# and a pasted text, which is one message.
if command -v script >/dev/null && ldd "$TRIREME" | grep -q libedit; then
  mkfifo "$work/keys"
  TERM=xterm script -qfec "'$TRIREME' chat '$work/run' --tokenizer '$tokenizer/tokenizer.json' \
    --temperature 0 --tokens 2" /dev/null <"$work/keys" >"$work/out" 2>&1 &
  exec 3>"$work/keys"
  # type KEYS: waits for as many prompts as lines were read before.
  prompts=0
  type() {
    prompts=$((prompts + 1))
    for _ in $(seq 400); do
      [ "$(grep -aoF '[?2004h' "$work/out" | wc -l)" -ge $prompts ] && break
      sleep 0.05
    done
    printf '%b' "$1" >&3
  }
  type 'Helo\e[Dl\r'
  type '\e[A!\r'
  type 'gr\xc3\xbc\xc3\x9fe\r'
  type 'garbage\x03clean\r'
  type '\e[200~one\rtwo\r\e[201~\r'
  type "/save $work/typed.json\r"
  type '\x04'
  exec 3>&-
  wait $!
  grep -o '"role":"user","content":"[^"]*"' "$work/typed.json" | cut -d'"' -f8 >"$work/said"
  printf '%s\n' Hello 'Hello!' $'gr\xc3\xbc\xc3\x9fe' clean 'one\ntwo' >"$work/meant"
  check "keys of a terminal" diff "$work/said" "$work/meant"
  # script may wait for ever where its input ends before its command has begun.
  : >"$work/out"
  TERM=dumb timeout 120 script -qfec "'$TRIREME' chat '$work/run' --tokenizer '$tokenizer/tokenizer.json' \
    --temperature 0 --tokens 2" /dev/null <"$work/keys" >"$work/out" 2>&1 &
  exec 3>"$work/keys"
  for _ in $(seq 400); do [ -s "$work/out" ] && break; sleep 0.05; done
  printf '/save %s\r/quit\r' "$work/dumb.json" >&3
  wait $!
  exec 3>&-
  check "no keys on a terminal without a cursor" test "$(grep -acF $'\e' "$work/out").$(ls "$work/dumb.json")" = "0.$work/dumb.json"

  # A line that takes more rows than the window is edited at both ends; a signal meanwhile leaves
  # the terminal as it was.
  cat >"$work/small.sh" <<END
stty rows 5 cols 80
stty -g >'$work/modes'
sh -c 'echo \$\$ >"$work/pid"; exec "$TRIREME" chat "$work/run" --tokenizer "$tokenizer/tokenizer.json" --temperature 0 --tokens 2'
echo "status \$?"
stty -g >'$work/modes.after'
END
  : >"$work/out"
  TERM=xterm script -qfec "bash '$work/small.sh'" /dev/null <"$work/keys" >"$work/out" 2>&1 &
  exec 3>"$work/keys"
  prompts=0
  type "$(printf 'a%.0s' $(seq 468))\x01/system X\x05Y\r"
  type "/save $work/long.json\r"
  type 'half a line'
  sleep 0.5
  kill -TERM "$(cat "$work/pid")"
  wait $!
  exec 3>&-
  grep -o '"role":"system","content":"[^"]*"' "$work/long.json" | cut -d'"' -f8 >"$work/said"
  printf 'X%sY\n' "$(printf 'a%.0s' $(seq 468))" >"$work/meant"
  check "a line longer than the window" diff "$work/said" "$work/meant"
  check "ended by the signal" grep -aq 'status 143' "$work/out"
  check "the terminal is as it was" cmp "$work/modes" "$work/modes.after"
fi
# Bad input, told and survived.
printf 'Hello\r\n/save %s\r\n/quit\r\nHello\r\n' "$work/crlf.json" | talk 1
check "lines that end in CR LF" grep -qF '"role":"user","content":"Hello"}' "$work/crlf.json"
printf "{%% if messages|length < 2 %%}{{ messages[0]['content'] }}{%% endif %%}" >"$work/short.jinja"
printf 'Hello\nagain\n/save %s\n' "$work/empty.json" | talk 1 --chat-template "$work/short.jinja"
check "an empty prompt is told" grep -q 'makes an empty prompt' "$work/out"
check "and taken back" bash -c "! grep -q again '$work/empty.json'"
printf '' >"$work/none.jinja"
printf 'Hello\n' | talk 1 --chat-template "$work/none.jinja"
check "an empty template, too" test "$status.$(grep -c 'makes an empty prompt' "$work/out")" = 0.1
talk 1 --system "No." --load "$work/said.json" </dev/null
check "two ways to begin" expect 64 'exclude each other'
long=$(printf 'word %.0s' $(seq 300))
printf '%s\n/load %s\n/save %s/none/file\n/load\n/save %s\n' "$long" "$work/run" "$work" "$work/last.json" | talk 1
check "too long a text is told" grep -q '128 positions' "$work/out"
check "a bad file is told" grep -q "$work" "$work/out"
check "a command without its file" grep -q '/load needs the name' "$work/out"
check "and nothing of it is kept" test "$(cat "$work/last.json")" = '{"messages":[]}'
printf '%s\n' "${long:0:100}" | talk 1 --positions 20
check "and of fewer positions" grep -q 'there are 20 positions' "$work/out"
talk 1 --positions 129 </dev/null
check "more than there are" expect 64 '--positions'
echo '{"messages": [{"role": 1}]}' >"$work/bad.json"
talk 1 --load "$work/bad.json" </dev/null
check "a bad conversation" expect 65 'role'
talk 1 --load "$work/absent" </dev/null
check "no conversation" expect 66 'no such file'
run 1 chat "$work/run"
check "no tokenizer" expect 64 'give --tokenizer'
finish
