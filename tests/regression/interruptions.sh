#!/usr/bin/env bash
# Stopping well, whatever interrupts a run.
# SPDX-License-Identifier: Apache-2.0
# Signals in every phase and in storms, the files stop and save, the end of a batch job,
# restarts in vain, and nodes that do not hold the same deck or program are tried.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
short="run.steps=5 precision.compute=fp32 parallel.tensor=2 checkpoint.every=5
       metrics.validate_every=1 data.validation_paths=[\"LICENSE\"]
       metrics.validate_sequences=2"

# SIGUSR1 is the tenth signal: bit 9 of the mask of those that are handled.
ready() {
  local handled
  handled=$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status" 2>/dev/null)
  ((0x${handled:-0} & 0x200))
}

# storm SIGNAL ARGS...: sends it to both ranks from their first moment to their last.
storm() {
  local signal=$1 mpirun ranks sent=0
  shift
  "$MPIRUN" -n 2 "$TRIREME" train $deck "$@" >"$work/out" 2>&1 </dev/null &
  mpirun=$!
  until ranks=$(pgrep -P $mpirun -f "$TRIREME") && [ "$(wc -w <<<"$ranks")" = 2 ]; do
    kill -0 $mpirun 2>/dev/null || break
    sleep 0.01
  done
  for rank in $ranks; do
    until ready "$rank" || [ ! -e "/proc/$rank" ]; do :; done
  done
  while kill "-$signal" $ranks 2>/dev/null; do
    sent=$((sent + 1))
    [ $((sent % 100)) = 0 ] && sleep 0.01  # let them run
  done
  wait $mpirun
  status=$?
  echo "$sent signals"
}

run 2 train $deck run.directory="$work/whole" $short
check "undisturbed" test "$status" = 0

# Initialisation, step, validation, save and end: each stop is one step further, saved.
for step in 1 2; do
  storm TERM run.directory="$work/term" $short
  check "a storm of SIGTERM: status 75" test "$status" = 75
  check "stopped after step $step" grep -q "stopped after step $step by a signal" "$work/out"
done
run 2 train $deck run.directory="$work/term" $short
check "after two stops in a row" identical term whole

storm USR2 run.directory="$work/usr2" $short checkpoint.keep=9
check "a storm of SIGUSR2 does not stop it" test "$status" = 0
check "but saves" test -d "$work/usr2/checkpoints/step-00000002"
check "and changes nothing" identical usr2 whole

# Files.
mkdir -p "$work/files"
touch "$work/files/save" "$work/files/stop"
run 2 train $deck run.directory="$work/files" $short
check "a file named stop" test "$status" = 75
check "is named as the reason" grep -q 'by a file named stop' "$work/out"
check "is gone, and save with it" test ! -e "$work/files/stop" -a ! -e "$work/files/save"
touch "$work/files/save"
run 2 train $deck run.directory="$work/files" $short checkpoint.keep=9
check "a file named save" test -d "$work/files/checkpoints/step-00000002" -a "$status" = 0
check "is gone" test ! -e "$work/files/save"
check "and nothing has changed" identical files whole

# The end of a batch job.
SLURM_JOB_END_TIME=$(($(date +%s) + 3)) run 2 train $deck run.directory="$work/end" $short \
  run.steps=1000000
check "the job's end" test "$status" = 75
check "is named as the reason" grep -q "by the job's end" "$work/out"

# Four starts of one job from step 1; the last is refused.
mkdir -p "$work/vain"
touch "$work/vain/stop"
run 1 train $deck run.directory="$work/vain" $short parallel.tensor=1
check "one step" test "$status" = 75
for restart in 0 1 2 3; do
  SLURM_JOB_ID=17 SLURM_RESTART_COUNT=$restart SLURM_JOB_END_TIME=99999999999 \
    run 1 train $deck run.directory="$work/vain" $short parallel.tensor=1 \
    debug.fault=throw@3@0
  [ $restart = 3 ] || check "start $restart" expect 70 "injected fault"
done
check "three starts in vain are enough" expect 78 "3 times from step 1"

# Who is killed before the first step has begun all the same.
run 1 train $deck run.directory="$work/early" $short parallel.tensor=1 debug.fault=kill@start@0
check "killed while it starts" test "$status" = 137
check "its lock says that it was there" test -e "$work/early/lock"
run 1 train $deck run.directory="$work/early" $short parallel.tensor=1
check "the next start goes on" test "$status" = 0
check "and is the only one that has begun" test "$(grep -c '^\[\[starts' "$work/early/status.toml")" = 1

# Nodes that differ.
sed 's/^seed = 1/seed = 2/' $deck >"$work/other.toml"
timeout 60 "$MPIRUN" -n 1 "$TRIREME" train $deck run.directory="$work/mixed" : \
  -n 1 "$TRIREME" train "$work/other.toml" run.directory="$work/mixed" >"$work/out" 2>&1
status=$?
check "another deck on rank 1" expect 65 "the deck of rank 1"
cp "$TRIREME" "$work/newer"
printf '\0' >>"$work/newer"
timeout 60 "$MPIRUN" -n 1 "$TRIREME" train $deck run.directory="$work/mixed" : \
  -n 1 "$work/newer" train $deck run.directory="$work/mixed" >"$work/out" 2>&1
status=$?
check "another program on rank 1" expect 78 "the program file of rank 1"
check "nothing was written" test ! -e "$work/mixed"
finish
