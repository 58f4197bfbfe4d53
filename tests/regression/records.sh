#!/usr/bin/env bash
# What a run leaves for other programs and on the terminal.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
one=$work/one
python=${TRIREME_PYTHON:-python3}
quiet="optimizer.schedule.name=constant optimizer.schedule.warmup=0"
more="run.directory=$one checkpoint.every=2 $quiet"

run 2 train $deck $more run.steps=3 'metrics.trackers=["tensorboard","wandb","mlflow"]'
check "training with all trackers" test "$status" = 0
sed "s|$work|runs|g" "$work/out" >"$work/log"
run 2 train $deck $more run.steps=5 'metrics.trackers=["tensorboard","wandb","mlflow"]'
check "and going on" test "$status" = 0
for kind in step checkpoint event; do
  check "lines of kind $kind" grep -q "^{\"kind\": \"$kind\", \"wall_time\": [0-9.]*, \"step\": " \
    "$one/metrics.jsonl"
done
check "no share above one" bash -c \
  "grep -o '\"mfu\": [0-9.e-]*' '$one/metrics.jsonl' | awk '{ if (\$2 > 1) bad = 1 } END { exit bad }'"
if "$python" -c 'import json' 2>/dev/null; then
  "$python" tests/regression/read_trackers.py "$one" >"$work/out" 2>&1
  check "the packages read it" test $? = 0
  grep skipped "$work/out"
else
  echo "no python3: the packages did not read it"
fi

run 2 train $deck $more run.steps=5 'metrics.trackers=["mlflow"]'
check "a start with nothing to do" grep -q '^nothing to do: 5 of 5' "$work/out"
check "leaves a finished run finished" bash -c "grep -qx 'status: 3' '$one'/mlruns/7*/*/meta.yaml"

# The start and the end of a log.
check "no line is above 100 columns, but for those of steps" \
  bash -c "! grep -v '^step ' '$work/log' | grep -E '^.{101}'"
check "a step's line has the memory" bash -c \
  "test \$(grep -cE '^step [0-9/]+ .*  mem [0-9.]+ [KMG]iB  left ' '$work/log') = 3"
check "one table of memory" test "$(grep -c '^memory ' "$work/log")" = 1
check "when the next checkpoint comes" grep -q '^saves ' "$work/log"
check "the last line" bash -c "tail -n 3 '$work/log' | grep -q '^done      3 steps, '"
check "where the checkpoint is" bash -c \
  "tail -n 3 '$work/log' | tr -d '\n ' | grep -q 'one/checkpoints/step-00000003'"
run 2 train $deck run.directory="$work/quiet" $quiet run.steps=2 --quiet --log-dir "$work/logs"
check "--quiet" test "$status" = 0
check "says how it ended" grep -q '^done      2 steps' "$work/out"
check "and nothing else" bash -c "! grep -vE '^(done|warning|  )' '$work/out'"
check "a file of each rank" test "$(ls "$work/logs" | tr '\n' ' ')" = "rank-00000.log rank-00001.log "
# Of ranks but the first: what they know, and nothing else.
run 2 train $deck run.directory="$work/each" $quiet run.steps=2 --log-dir "$work/each-logs"
other=$work/each-logs/rank-00001.log
check "a rank without a plan has no column of it" bash -c \
  "grep -A 1 ' memory ' '$other' | grep -q 'held now' && ! grep -q 'planned *held now' '$other'"
check "the first rank has it" grep -q 'planned *held now' "$work/each-logs/rank-00000.log"
check "each rank says where the checkpoint is" bash -c \
  "tail -n 3 '$other' | tr -d '\n ' | grep -q 'each/checkpoints/step-00000002'"
run 1 train $deck run.directory="$work/debug" $quiet run.steps=2 parallel.tensor=1 \
  --log-level debug
check "times of the parts of a step" grep -q '^          step 2  data ' "$work/out"
run 1 train $deck --log-level loud
check "no such level" expect 64 'error, warning, info and debug'

# A step that takes long, here one of 2400 samples, has a heartbeat.
run 1 train $deck run.directory="$work/slow" $quiet run.steps=1 batch.global=2400 \
  metrics.heartbeat=0.01
check "a heartbeat" grep -q '^step [0-9]*  under way for ' "$work/out"

# On a terminal a line moves; NO_COLOR and TERM are respected.
if command -v script >/dev/null; then
  on_terminal() {  # VARIABLES...: the log of a run of one rank on a terminal
    rm -rf "$work/tty"
    env TERM=xterm "$@" script -qec \
      "stty cols 90; '$TRIREME' train $deck run.directory='$work/tty' $quiet run.steps=4 metrics.every=9" \
      /dev/null </dev/null >"$work/out" 2>&1
    grep -c "$(printf '\033')" "$work/out"
  }
  check "colours on a terminal" test "$(on_terminal)" -gt 3
  check "in each line of the plan" grep -q "^$(printf '\033')\[1mbatch$(printf '\033')" "$work/out"
  check "a line that moves" grep -q '\[=*>* *\] ' "$work/out"
  # Blanks for what moves the cursor and colours: no line of prose or of a step is broken.
  long=$(sed "s/$(printf '\033')\[[0-9;]*[mK]//g; s/.*$(printf '\r')\(.\)/\1/; s/$(printf '\r')//" "$work/out" |
    grep -v '^ ' | awk 'length($0) > 90')
  check "lines that fit the terminal" test -z "$long"
  check "a step without its rate" \
    grep -q 'step[^ ]* 4/4  loss  *[0-9.]*  norm  *[0-9.]*  *[0-9.]* k* *tok/s .* left 0 s' "$work/out"
  printf '[model]\narchitecture = "lama"\n' >"$work/bad.toml"
  fails() {  # an error of a deck on a terminal
    env TERM=xterm "$@" script -qec "stty cols 90; '$TRIREME' plan '$work/bad.toml'" /dev/null \
      </dev/null 2>&1 | tr -d '\r' >"$work/out"
  }
  fails
  check "an error in colour" grep -q "^$(printf '\033')\[1;31mtrireme: error:" "$work/out"
  check "in lines that fit" test -z "$(sed "s/$(printf '\033')\[[0-9;]*m//g" "$work/out" | awk 'length($0) > 90')"
  fails NO_COLOR=1
  check "or without colour" grep -q '^trireme: error:' "$work/out"
  on_terminal NO_COLOR=1 >/dev/null
  check "NO_COLOR leaves the line alone" bash -c \
    "! sed 's/$(printf '\r\033')\[K//g' '$work/out' | grep -q '$(printf '\033')'"
  check "TERM=dumb: plain lines" test "$(on_terminal TERM=dumb)" = 0
fi

# A tracker that fails is told of; training goes on.
: >"$work/file"
run 1 train $deck run.directory="$work/fails" $quiet run.steps=2 'metrics.trackers=["mlflow"]' \
  metrics.tracker_directory="$work/file/x"
check "training without the tracker" test "$status" = 0
check "which is said" grep -q '^warning: mlflow: ' "$work/out"
run 1 train $deck 'metrics.trackers=["wandb","x"]' --check
check "no such tracker" expect 65 'tensorboard, wandb or mlflow'
finish
