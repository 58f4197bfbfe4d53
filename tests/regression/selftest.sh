#!/usr/bin/env bash
# The self-test on two ranks names a rank that is broken on purpose, and records passes.
# SPDX-License-Identifier: Apache-2.0
# With "emulated" as argument on the emulated GPU, where records are kept and train asks
# for them.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
ulimit -c 0
device=${1:-cpu}
[ "$device" != emulated ] || device=cuda
export XDG_CACHE_HOME="$work/cache" TRIREME_EMULATION_DEVICES=2

says() { grep -q -- "$1" "$work/out" || { echo "not said: $1"; return 1; }; }
says_not() { ! grep -q -- "$1" "$work/out" || { echo "said: $1"; return 1; }; }

# As many checks as --list names, each with a line that says ok or why it was left out.
run 2 selftest --device $device --list
check "--list" test "$status" = 0
listed=$(wc -l <"$work/out")
check "kernels, messages and steps are listed" test "$listed" -gt 100

if [ "$device" = cpu ]; then
  run 2 selftest --device cpu
  check "two ranks" test "$status" = 0
  check "a line for each check" \
    test "$(grep -c '  ok$\|left out: ' "$work/out")" = "$listed"
  check "the last line" says "self-test: $listed checks, .* left out, 0 wrong, .* s"
  check "nothing is recorded of a CPU" test ! -e "$work/cache"
  run 1 selftest --device cpu --only 'norms fp32'
  check "one rank, one check" test -n "$(grep 'self-test on 1 rank, ' "$work/out")" \
    -a -n "$(grep '^self-test: 1 check, ' "$work/out")"
  run 3 selftest --device cpu --only 'all_*'
  check "three ranks" test "$status" = 0
  check "on every axis" says "all_gather on 3 ranks of axis tensor .* ok"
  check "nothing else" says_not norms
  run 1 selftest --device cpu --only 'reduce*'
  check "one rank" test "$status" = 0

  # One rank is broken on purpose, in a kernel, in a message, in a step.
  for what in 'norms bf16' 'all_gather*axis tensor' 'training step te_current'; do
    run 2 selftest --device cpu --only "$what" --fault "$what@1"
    check "$what: status and rank" expect 81 "error: rank 1 (host .*, CPU) gave wrong results"
    check "$what: the line" says "WRONG on rank 1 (host "
    check "$what: the other rank is right" says_not "rank 0 (host"
  done

  run 2 selftest --only nothing
  check "no such check" expect 64 "no check is called 'nothing'"
  run 1 selftest --fault norms@1
  check "no such rank" expect 64 "a rank from 0 to 0"
  run 1 selftest --fault nothing@0
  check "a fault nowhere" expect 64 "no check that is made is called 'nothing'"
  run 1 selftest --device gpu
  check "no such device" expect 64 "none of auto, cpu and cuda"
  finish
  exit
fi

train() {
  rm -rf "$work/run"
  run 2 train tests/regression/tiny.toml run.directory="$work/run" run.steps=1 \
    optimizer.schedule.warmup=1 precision.compute=fp32 run.device=cuda
}
asks="trireme selftest --device cuda"
train
check "train asks for the self-test" says "$asks"
check "once" test "$(grep -c -- "$asks" "$work/out")" = 1
run 2 selftest --device cuda --only 'square roots*' --fault '*@1'
check "a broken device" expect 81 "rank 1 (host .*, .*) gave wrong results"
run 2 selftest --device cuda --only 'square roots*'
check "some checks" test "$status" = 0
check "are no record" test ! -e "$work/cache"
run 2 selftest --device cuda
check "the emulated device" test "$status" = 0
check "a line for each check there" \
  test "$(grep -c '  ok$\|left out: ' "$work/out")" = "$listed"
check "cuDNN is left out" says "attention, cuDNN and own bf16 .*left out: no cuDNN"
check "is recorded" says "recorded in $work/cache/trireme/selftest"
train
check "train asks no more" says_not "$asks"
check "train still trains" test "$status" = 0
run 2 selftest --device cuda --speed --quick --below 0
check "speed there" test "$status" = 0
check "of the GPUs" says "^products, GFLOP/s .* 2 "
run 2 selftest --device cuda --speed --quick --below 0 --only patterns --fault 'patterns@1'
check "memory of a GPU" expect 81 "rank 1 (host .*, GPU .*): byte 524288 of 1048576"
XDG_CACHE_HOME=/dev/null
train
check "another cache" says "$asks"
finish
