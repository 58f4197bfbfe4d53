# Helpers of the regression scripts, which run the whole program on small decks.
# SPDX-License-Identifier: Apache-2.0
# CTest gives TRIREME_PROGRAM, TRIREME_MPIEXEC and TRIREME_SOURCE.
set -u
TRIREME=$TRIREME_PROGRAM
MPIRUN=$TRIREME_MPIEXEC
SOURCE=$TRIREME_SOURCE
H5_COMPARE=${TRIREME_H5_COMPARE:-$(dirname "$TRIREME")/h5_compare}
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# run RANKS ARGS...: output in $work/out, exit status in $status.
run() {
  local ranks=$1
  shift
  if [ "$ranks" = 1 ]; then
    timeout 600 "$TRIREME" "$@" >"$work/out" 2>&1 </dev/null
  else
    timeout 600 "$MPIRUN" -n "$ranks" "$TRIREME" "$@" >"$work/out" 2>&1 </dev/null
  fi
  status=$?
}

# check NAME COMMAND...: counts whether the command succeeds.
check() {
  local name=$1
  shift
  if "$@" >"$work/check" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
    sed 's/^/    /' "$work/check" | head -20
    sed 's/^/  out: /' "$work/out" | tail -20
  fi
}

# expect STATUS WORDS: the last run ended with the status, with one error message that has
# the words.
expect() {
  [ "$status" = "$1" ] || { echo "status $status, expected $1"; return 1; }
  local count
  count=$(grep -c 'trireme: error:' "$work/out")
  [ "$count" = 1 ] || { echo "$count error messages, expected 1"; return 1; }
  grep -q -- "$2" "$work/out" || { echo "the message lacks: $2"; return 1; }
}

# field FILE KEY: the values of a key in metrics.jsonl, a line each.
field() { grep -o "\"$2\":[^,}]*" "$1" | cut -d: -f2 | tr -d ' '; }

# close_values A B LIMIT: two lists of numbers agree line by line.
close_values() {
  paste "$1" "$2" | awk -v limit="$3" '
    NF != 2 { print "line " NR ": a value is missing"; bad = 1 }
    { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; if (!(d <= limit)) bad = 1 }
    END { print NR " values, worst difference " worst; exit bad || NR == 0 }'
}

# tensors RUN: digest and name of each tensor of its last checkpoint, a line each.
tensors() { "$TRIREME" inspect "$1" --tensors | grep -E '^[0-9a-f]{32}' | sort; }

# gone PATH: five seconds from now at the latest no process has it in its command line.
gone() {
  for _ in $(seq 50); do
    pgrep -f -- "$1" >/dev/null || return 0
    sleep 0.1
  done
  pgrep -af -- "$1"
  return 1
}

# chat_tokenizer FOLDER: a tokenizer of 300 tokens, trained here, with a template for conversations.
chat_tokenizer() {
  mkdir "$1"
  "$TRIREME" tokenize "$SOURCE/README.md" --train 300 -o "$1/tokenizer.json" >"$work/out" 2>&1
  check "a tokenizer" [ -s "$1/tokenizer.json" ]
  cat >"$1/chat_template.jinja" <<'END'
{% for m in messages %}
<{{ m.role }}>{{ m.content }}<|endoftext|>
{% endfor %}
{% if add_generation_prompt %}
<assistant>
{%- endif %}
END
}

# identical A B: losses and tensors of two runs in $work are the same, to the bit.
identical() {
  field "$work/$1/metrics.jsonl" loss >"$work/a"
  field "$work/$2/metrics.jsonl" loss >"$work/b"
  cmp "$work/a" "$work/b" || { paste "$work/a" "$work/b"; return 1; }
  tensors "$work/$1" >"$work/a"
  tensors "$work/$2" >"$work/b"
  [ -s "$work/a" ] && diff "$work/a" "$work/b"
}

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}
