#!/bin/bash
# Builds and runs tests: without arguments the main suite, with "all" everything.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/run.sh [PART...]
#   main      the tests that take a newcomer least time (default)
#   long      faults, signals, many ranks, Slurm: what has the label long
#   gpu       the CUDA back end on a host that emulates it, and each header alone
#   sanitize  address and undefined-behaviour sanitizers
#   cuda      compiles and links the CUDA back end and its tests, where nvcc is installed, and
#             reads what the compiler made of its kernels
#   fuzz      the parsers under libFuzzer, where clang has it
#   all       all of these;  rest: all but main
#   nccl      every mesh of up to 8 ranks by the emulated NCCL, and more of its tests: half an
#             hour, and not part of all
#   TRIREME_TEST_JOBS=<n>      half cores for tests (default: twice the cores)
#   TRIREME_FUZZ_SECONDS=<n>   for each parser that is fuzzed (default: 16)
#   TRIREME_TEST_END=<time>    seconds since 1970: fuzzing, before it the reading of the CUDA
#                              kernels' code, and before that the sanitizers, are left out,
#                              and said to be, where too few minutes are left until then
#                              (ten, twelve, twenty)
# Fails if any part fails; the last lines say how each went.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 70

rest=(long gpu sanitize cuda fuzz)
jobs=${TRIREME_TEST_JOBS:-$((2 * $(nproc)))}
summary=()  # a line for each part; the main suite's comes last
failed=0

# heading TEXT: with the seconds since the start, so that slow parts are seen.
heading() { printf '\n== %s (after %d s)\n' "$1" "$SECONDS"; }

# report NAME STATUS TEXT
report() {
  summary=("$1: $3" "${summary[@]}")
  [ "$2" -eq 0 ] || failed=1
}

# failed_checks LOG: the first checks that failed in scripts, each with what it first said.
failed_checks() {
  awk '/^(FAILED|FAIL): / { if (++checks <= 40) printf "\n  %s", $0; lines = 4; next }
       /^ +[^ ]/ && lines > 0 && checks <= 40 { --lines; printf "\n  %s", substr($0, 1, 160); next }
       { lines = 0 }' "$1"
}

# run_ctest NAME PRESET [OPTIONS...]: runs the tests and reports CTest's own summary line,
# with the names of those that failed and the checks that failed in them.
run_ctest() {
  local name=$1 preset=$2 log status=0
  shift 2
  log=$(mktemp)
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" |
    tee "$log" || status=$?
  report "$name" "$status" "$(grep -E 'tests passed.*out of' "$log" || echo 'no test ran')$(
    sed -n '/^The following tests FAILED/,/^Errors while/s/^\t[ 0-9]* - /; /p' "$log" | tr -d '\n'
  )$(failed_checks "$log")"
  rm -f "$log"
}

# build_and_test NAME PRESET TARGETS CTEST_OPTIONS...
build_and_test() {
  local name=$1 preset=$2 targets=$3
  shift 3
  heading "$name"
  # shellcheck disable=SC2086  # several targets are several words
  if cmake/setup.sh "$preset" $targets; then
    run_ctest "$name" "$preset" "$@"
  else
    report "$name" 1 "the build failed"
  fi
}

# too_late NAME SECONDS: whether fewer are left until TRIREME_TEST_END, which is reported.
too_late() {
  [ -n "${TRIREME_TEST_END:-}" ] && [ "$(date +%s)" -gt $((TRIREME_TEST_END - $2)) ] || return 1
  report "$1" 0 "left out: this machine was too slow for it (TRIREME_TEST_END)"
}

# Compiles and links the CUDA back end, and the tests that only a GPU runs. The program must
# start and train on the CPUs of a machine without a GPU: the parity test runs with it. That
# build is quick rather than good; what kernels become is read from those compiled in earnest.
test_cuda() {
  heading "CUDA build"
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    report "CUDA build" 0 "left out: nvcc is not installed"
    return
  fi
  if cmake/setup.sh ci-cuda trireme gpu_programs && build/ci-cuda/trireme --version &&
    trains_on_cpus build/ci-cuda/trireme; then
    report "CUDA build" 0 "compiles, links, starts, and trains on CPUs"
  else
    report "CUDA build" 1 "failed"
  fi
  heading "code of the CUDA kernels"
  if too_late "CUDA kernels" 720; then return; fi
  if cmake/setup.sh tests roofline &&
    tests/bench/roofline.sh --check build/tests/tests/bench/roofline; then
    report "CUDA kernels" 0 "all read: no spills, and stores as wide as the table says"
  else
    report "CUDA kernels" 1 "spills, or narrow stores: see above"
  fi
}

# trains_on_cpus PROGRAM: the parity test of the main suite with another program.
trains_on_cpus() {
  [ -x build/tests/h5_compare ] || return 0  # the main suite was not built
  env OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 \
    OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1 OMP_PROC_BIND=false \
    OPENBLAS_NUM_THREADS=1 TRIREME_PROGRAM="$PWD/$1" TRIREME_SOURCE="$PWD" \
    TRIREME_MPIEXEC=mpirun TRIREME_H5_COMPARE="$PWD/build/tests/h5_compare" \
    bash tests/regression/parity.sh
}

# Each fuzzing target under libFuzzer and the sanitizers, two at a time. What they find is
# kept in build/fuzz/found, and new inputs in build/fuzz/corpus for the next time.
test_fuzz() {
  heading "fuzzing"
  local seconds=${TRIREME_FUZZ_SECONDS:-16} status=0
  if too_late "fuzzing" 600; then return; fi
  cmake/setup.sh fuzz fuzzers || status=$?
  if [ $status -eq 77 ]; then
    report "fuzzing" 0 "left out: no clang"
    return
  elif [ $status -ne 0 ]; then
    report "fuzzing" 1 "the build failed"
    return
  fi
  local name names=()
  for name in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$name" _fuzz.cpp)
    names+=("$name")
  done
  printf '%s\n' "${names[@]}" | xargs -P 2 -n 1 tests/fuzz/run_one.sh "$seconds" || status=$?
  local inputs
  inputs=$(awk '/^inputs/ { sum += $2 } END { print sum + 0 }' build/fuzz/log/*.inputs)
  if [ $status -eq 0 ]; then
    report "fuzzing" 0 "${#names[@]} targets, $seconds s each, $inputs inputs, nothing found"
  else
    report "fuzzing" 1 "found something: see above, and build/fuzz/found"
  fi
}

# table_of_scale BUILD: what the simulated ranks cost each (docs/scale.md), which CTest has put
# into its own log.
table_of_scale() {
  sed -n '/^phase .* 100,000$/,/^$/p' "$1/Testing/Temporary/LastTest.log" 2>/dev/null |
    sed '/^\[/d; /^$/d'
}

# run_part NAME. The sanitizers watch the unit tests and the tests on two ranks.
run_part() {
  case $1 in
    main)
      build_and_test "main suite" tests all -LE '^(long|campaign)$'
      table_of_scale build/tests
      ;;
    long) build_and_test "long tests" tests "all long_tests" -L '^long$' ;;
    gpu) build_and_test "emulated GPU" ci gpu_tests -L '^gpu$' -LE '^long$' ;;
    nccl) build_and_test "emulated NCCL" ci gpu_tests -L '^gpu$' -L '^long$' ;;
    sanitize)
      too_late "sanitizers" 1200 ||
        build_and_test "sanitizers" ci-sanitize unit_and_pair_tests \
          -L '^(unit|ranks-2)$' -LE '^(regression|reference|long)$'
      ;;
    cuda) test_cuda ;;
    fuzz) test_fuzz ;;
  esac
}

parts=()
for part in "${@:-main}"; do
  case $part in
    main | long | gpu | sanitize | cuda | fuzz | nccl) parts+=("$part") ;;
    all) parts+=(main "${rest[@]}") ;;
    rest) parts+=("${rest[@]}") ;;
    *)
      echo "usage: tests/run.sh [main|long|gpu|sanitize|cuda|fuzz|nccl|all|rest]..." >&2
      exit 64
      ;;
  esac
done
if [ "$(id -u)" = 0 ]; then  # Open MPI refuses root unless told twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
for part in "${parts[@]}"; do run_part "$part"; done

heading "summary"
printf '%s\n' "${summary[@]}"
exit $failed
