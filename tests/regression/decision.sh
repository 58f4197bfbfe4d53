#!/usr/bin/env bash
# Runs whose GPUs judge their steps end as those do whose hosts judge them.
# SPDX-License-Identifier: Apache-2.0
# A rule for spikes that finds none makes the host the judge.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
ulimit -c 0
export TRIREME_EMULATION_DEVICES=2 XDG_CACHE_HOME="$work/cache"
by_host="health.spike=stop health.spike_window=1000"

# both WORDS...: a run each, judged by the GPU and by the host.
both() {
  local judge
  for judge in gpu host; do
    rm -rf "$work/run"
    local words=()
    [ $judge = gpu ] || read -ra words <<<"$by_host"
    run 2 train tests/regression/tiny.toml run.directory="$work/run" run.steps=4 \
      precision.compute=fp32 run.device=cuda model.layers=1 batch.global=4 "$@" "${words[@]}"
    echo "$status" >"$work/status.$judge"
    grep 'trireme: error:\|warning: step' "$work/out" | sed 's/^.*\(step [0-9]\)/\1/' \
      >"$work/said.$judge"
    for key in loss grad_norm tokens skipped; do field "$work/run/metrics.jsonl" $key; done \
      >"$work/numbers.$judge"
    # Loss and norm come together on the GPU.
    grep -c '"everyone": {.*"all_gather": {"calls": 1, "bytes": 16[,}].*"replicas"' \
      "$work/run/metrics.jsonl" >"$work/steps_of_gpu.$judge"
  done
}
same() {
  check "$1: the same status" cmp "$work/status.gpu" "$work/status.host"
  check "$1: the same words" cmp "$work/said.gpu" "$work/said.host"
  check "$1: the same numbers" cmp "$work/numbers.gpu" "$work/numbers.host"
}

both
same "sound steps"
check "sound steps: they are done" grep -qx 0 "$work/status.gpu"
check "sound steps: four of them" test "$(wc -l <"$work/numbers.gpu")" = 12
check "sound steps: the GPU judges all" grep -qx 4 "$work/steps_of_gpu.gpu"
check "sound steps: the host judges all" grep -qx 0 "$work/steps_of_gpu.host"
both debug.fault=nan@3@1
same "a weight that is NaN"
check "a weight that is NaN: diverged" grep -qx 80 "$work/status.gpu"
check "a weight that is NaN: who" grep -q '^step 3: .*; not finite: .*rank' "$work/said.gpu"
check "a weight that is NaN: two steps" test "$(wc -l <"$work/numbers.gpu")" = 6
both debug.fault=nan_gradient@2@1 health.nan=skip parallel.sharding_strategy=ZERO1
same "a gradient that is NaN"
check "a gradient that is NaN: skipped" grep -q '^step 2: .*the update is skipped' "$work/said.gpu"
check "a gradient that is NaN: the host judges that step" grep -qx 3 "$work/steps_of_gpu.gpu"
check "a gradient that is NaN: goes on" grep -qx 0 "$work/status.gpu"
finish
