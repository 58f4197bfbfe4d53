#!/usr/bin/env bash
# A dry run of gpu.sh with the emulated device: both calls, few programs, tiny sizes.
# SPDX-License-Identifier: Apache-2.0
# gpu_pack.sh BUILD: a build folder with the emulated device.
. "$(dirname "$0")/../regression/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)

call() { bash "$@" >"$work/out" 2>&1 </dev/null; status=$?; }
says() { grep -qE -- "$2" "$1" || { echo "not said: $2"; tail -40 "$1"; return 1; }; }

call "$here/gpu.sh" pack "$work/pack" --emulated --build "$1" --few
check "packed" test "$status" = 0
check "programs and two tests" says "$work/out" "packed: .* 2 tests on a GPU"

call "$work/pack/gpu.sh" run "$work/pack" "$work/first" --parts version,nccl,selftest,kernels,bench
check "the first call" test "$status" = 0
page=$work/first/summary.txt
check "says that it is a dry run" says "$page" "^A dry run on the emulated device"
check "clocks before and after" says "$page" "^after: "
check "a number for a claim" says "$page" "every check of the self-test +self-test: .* 0 wrong"
check "NCCL" says "$page" "a communicator of one rank +[0-9.]+ s"
check "attention at this size was not measured" says "$page" "12 heads: own kernels +not measured"
check "the share of a product" says "$page" "share of the measured product.* median "
check "no peak of a data sheet" says "$page" "gpt2-124m, bf16, graphs false: MFU; .*mfu: not known"
check "what was not measured" says "$page" "B1, .* not measured"
check "nothing failed" says "$page" "^failed: 0"
check "one page" test "$(wc -l <"$page")" -le 90

call "$work/pack/gpu.sh" run "$work/pack" "$work/second" --parts second
check "the second call" test "$status" = 0
check "a test on one rank" says "$work/second/parts.txt" "gpu.rope_test: passed"
check "a test on two ranks" says "$work/second/parts.txt" "gpu.mesh_test.2: passed"
check "the first call's numbers are not measured" says "$work/second/summary.txt" \
  "every check of the self-test +not measured"

call "$work/pack/gpu.sh" run "$work/pack" "$work/third" --parts nothing
check "an unknown part" test "$status" = 64
check "names those that there are" says "$work/out" "no part 'nothing'; there are first, second"
finish
