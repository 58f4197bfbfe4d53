#!/usr/bin/env bash
# metrics.profile: which steps and ranks are written, and what their traces hold.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
python=${TRIREME_PYTHON:-python3}
quiet="optimizer.schedule.name=constant optimizer.schedule.warmup=0"

# files RUN: its traces, in a line.
files() { (cd "$1/profile" && find . -type f | sort | tr '\n' ' '); }

# reads FILE ARGUMENTS...: see read_profile.py; without Python a trace is only asked for.
reads() {
  if "$python" -c 'import json' 2>/dev/null; then
    "$python" tests/regression/read_profile.py "$@"
  else
    test -s "$1"
  fi
}

# 1. Two tensor ranks, one window.
run 2 train $deck run.directory="$work/plain" $quiet run.steps=6 parallel.tensor=2
check "training" test "$status" = 0
check "without the key there is no profile" test ! -e "$work/plain/profile"
run 2 train $deck run.directory="$work/tensor" $quiet run.steps=6 parallel.tensor=2 \
  metrics.profile="3-4@0-1" checkpoint.every=4
check "training with a profile" test "$status" = 0
check "a trace of each rank" test "$(files "$work/tensor")" = \
  "./step-00000003/rank-0000.json ./step-00000003/rank-0001.json "
for rank in 0 1; do
  check "the trace of rank $rank" reads "$work/tensor/profile/step-00000003/rank-000$rank.json" \
    $rank 3,4 'all_reduce tensor' checkpoint forward backward optimizer wait
done
check "the same bits" identical plain tensor

# 2. Two stages, two windows, of rank 0 alone.
run 2 train $deck run.directory="$work/stages" $quiet run.steps=5 parallel.pipeline=2 \
  metrics.profile="2,4-5"
check "training in stages" test "$status" = 0
check "a trace of each window" test "$(files "$work/stages")" = \
  "./step-00000002/rank-0000.json ./step-00000004/rank-0000.json "
check "with messages between stages" reads "$work/stages/profile/step-00000004/rank-0000.json" \
  0 4,5 'send pipeline' 'receive pipeline' send receive

# 3. A run that is stopped in its window, and goes on there.
mkdir "$work/stopped" && touch "$work/stopped/stop"
stopped="run.directory=$work/stopped $quiet run.steps=3 parallel.tensor=2 metrics.profile=1-3@all"
run 2 train $deck $stopped
check "a stop in the window" test "$status" = 75
check "leaves the trace of its step" reads "$work/stopped/profile/step-00000001/rank-0001.json" 1 1
run 2 train $deck $stopped
check "going on" test "$status" = 0
check "the other steps" reads "$work/stopped/profile/step-00000002/rank-0001.json" 1 2,3
check "and no file beside them" test "$(files "$work/stopped" | wc -w)" = 4

# 4. What cannot be written is told of, and training goes on; what means nothing is refused.
mkdir "$work/file" && : >"$work/file/profile"
run 2 train $deck run.directory="$work/file" $quiet run.steps=2 parallel.tensor=2 \
  metrics.profile=1-1@1
check "training without the trace" test "$status" = 0
check "which is said" grep -q 'trireme: warning: no profile of rank 1: .*/profile' "$work/out"
run 2 train $deck run.directory="$work/none" metrics.profile=4-2
check "steps that end before they begin" expect 65 'metrics.profile: "4-2" ends before it begins'
run 2 train $deck run.directory="$work/none" metrics.profile=1@2
check "no such rank" expect 78 'names rank 2, but the number of ranks is 2'
finish
