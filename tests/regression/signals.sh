#!/usr/bin/env bash
# Signals and limits: every command ends when it is told to.
# SPDX-License-Identifier: Apache-2.0
# A run saves before it does and when it is done, and limits on files end in a message.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
short="run.steps=4 precision.compute=fp32 optimizer.schedule.name=constant"
long="run.steps=1000000 precision.compute=fp32 optimizer.schedule.name=constant"

same_tensors() {
  tensors "$1" >"$work/a"
  tensors "$2" >"$work/b"
  [ -s "$work/a" ] && diff "$work/a" "$work/b"
}

# until_true COMMAND...: waits for it; a limit for hangs only.
until_true() {
  local i
  for ((i = 0; i < 1200; ++i)); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.05
  done
  return 1
}

# start COMMAND...: in the background, as $pid, output in $work/out. ends: waits for it.
start() {
  : >"$work/out"  # so that nobody takes the words of the last one for its own
  "$@" >"$work/out" 2>&1 </dev/null &
  pid=$!
}
ends() {
  until_true ended
  kill -KILL $pid 2>/dev/null && echo "was still there after a minute"
  wait $pid
  status=$?
}
ended() { ! kill -0 $pid; }
said() { grep -q -- "$1" "$work/out"; }
steps_of() { [ "$(field "$1/metrics.jsonl" loss | wc -l)" -ge "$2" ]; }

# 1. A run that is done has saved; a benchmark has not.
run 1 train $deck run.directory="$work/done" $short
check "a run ends" test "$status" = 0
check "and has saved" test -d "$work/done/checkpoints/step-00000004"
check "as it said" said 'one checkpoint, after step 4'
run 1 train $deck run.directory="$work/bench" $short checkpoint.at_end=false
check "a benchmark saves nothing" test "$status" = 0 -a ! -e "$work/bench/checkpoints/latest"
run 1 train $deck run.directory="$work/every" $short checkpoint.every=3
check "the next checkpoint is told" said 'the next checkpoint is due after step 3'
check "and the one after it" said 'step 3 .*the next after step 4'

# 2. Commands that have nothing to save end at once.
for signal in TERM INT HUP USR1; do
  start "$TRIREME" generate "$work/done" --prompt x --tokens 10000000 --temperature 0
  until_true said '^x'
  kill -$signal $pid
  ends
  check "generate ends by SIG$signal" test "$status" = $((128 + $(kill -l $signal)))
  check "and says so" said "ended by SIG$signal"
done
start "$TRIREME" bench
until_true said 'ranks'
kill -TERM $pid
ends
check "bench ends by SIGTERM" test "$status" = 143
head -c 8000000 /dev/zero | tr '\0' x >"$work/data"
start "$TRIREME" evaluate "$work/done" "$work/data" --logits "$work/logits.h5"
until_true compgen -G "$work/logits.h5*"
kill -TERM $pid
ends
check "evaluate ends by SIGTERM" test "$status" = 143
check "and leaves no part of a file" test -z "$(compgen -G "$work/logits.h5*")"
start "$MPIRUN" -n 2 "$TRIREME" generate "$work/done" --prompt x --tokens 10000000 --temperature 0
until_true said '^x'
pkill -TERM -P $pid
ends
check "two ranks of generate end by SIGTERM" test "$status" = 143

# 3. Ctrl-C: the first saves, the second leaves.
start "$TRIREME" train $deck run.directory="$work/once" $long
until_true steps_of "$work/once" 2
kill -INT $pid
ends
check "a first SIGINT ends the run with 75" test "$status" = 75
check "after a checkpoint" test -n "$(compgen -G "$work/once/checkpoints/step-*")"
start "$TRIREME" train $deck run.directory="$work/twice" $long debug.fault=hang@3@0
until_true steps_of "$work/twice" 2
kill -INT $pid
until_true said 'a second one leaves at once'
kill -INT $pid
ends
check "a second one leaves at once" test "$status" = 130

# A validation that would take minutes does not keep a run from ending, whether that is asked
# for or the limit of its time comes near.
slow="$long metrics.validate_every=1 metrics.validate_sequences=0
      data.validation_paths=[\"$work/data\"]"
start "$MPIRUN" -n 2 "$TRIREME" train $deck run.directory="$work/validated" $slow
until_true steps_of "$work/validated" 1
kill -USR1 $pid
ends
check "a signal in a validation" test "$status" = 75 -a -d "$work/validated/checkpoints/step-00000001"
check "says what is left off" said 'the validation is left off, for the run ends here by a signal'
check "which is not recorded" test -z "$(field "$work/validated/metrics.jsonl" validation_loss)"
start "$TRIREME" train $deck run.directory="$work/limited" $slow run.time_limit=3
ends
check "run.time_limit in the first validation" test "$status" = 75
check "ends the run there" said 'stopped after step 1 by run.time_limit'
mkdir "$work/samples" && touch "$work/samples/stop"
start "$TRIREME" train $deck run.directory="$work/samples" $slow
ends
check "a known stop begins no validation" test "$status" = 75 -a -z "$(grep 'left off' "$work/out")"
prompts=$(seq -s , 100 139 | sed 's/[0-9]*/"&"/g')
start "$TRIREME" train $deck run.directory="$work/texts" $long metrics.sample_every=1 \
  "metrics.sample_prompts=[$prompts]" metrics.sample_tokens=500 model.sequence=512
until_true steps_of "$work/texts" 1
kill -TERM $pid
ends
check "SIGTERM in texts" test "$status" = 75
check "says that they are left off" said 'texts are left off, for the run ends here by a signal'

# A directory that is moved while the run is in it is not made anew.
start "$TRIREME" train $deck run.directory="$work/moved" $long
until_true steps_of "$work/moved" 2
mv "$work/moved" "$work/elsewhere"
kill -TERM $pid
ends
check "a directory that is moved" expect 73 "$work/moved: was moved or removed while the run was in it"
check "is not made anew" test ! -e "$work/moved"

# 4. SIGUSR1: a warning near the end of a job that is known, else a stop.
near=$(($(date +%s) + 300)) far=$(($(date +%s) + 36000))
usr1() { # DIRECTORY END
  SLURM_JOB_END_TIME=$2 start "$TRIREME" train $deck run.directory="$work/$1" $long
  until_true steps_of "$work/$1" 2
  kill -USR1 $pid
}
usr1 far $far
ends
check "SIGUSR1 long before the end stops" test "$status" = 75
usr1 near $near
until_true said 'another SIGUSR1 stops'
done_steps=$(field "$work/near/metrics.jsonl" loss | wc -l)
check "near the end it does not" until_true steps_of "$work/near" $((done_steps + 5))
kill -USR1 $pid
ends
check "but a second one does" test "$status" = 75

# 5. An asynchronous save's copy is waited for before the weights change.
run 1 train $deck run.directory="$work/sync" $short checkpoint.every=2 checkpoint.keep=0
run 1 train $deck run.directory="$work/async" $short checkpoint.every=2 checkpoint.keep=0 \
  checkpoint.async=true debug.fault=slow_copy@1@0
check "with a slow copy" test "$status" = 0
check "the copy is of its step" same_tensors "$work/sync/checkpoints/step-00000002" \
  "$work/async/checkpoints/step-00000002"

# 6. Limits.
(ulimit -f 100 && run 1 train $deck run.directory="$work/large" $short
 echo "$status" >"$work/status")
status=$(cat "$work/status")
check "a limit on the size of files" expect 74 "ulimit -f"
(ulimit -n 20 && run 1 inspect "$work/done"
 echo "$status" >"$work/status")
status=$(cat "$work/status")
check "a limit on open files" expect 78 "ulimit -n"
finish
