#!/bin/bash
# Runs one fuzzing target for some seconds; fails if it finds something.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_one.sh SECONDS NAME     after cmake/setup.sh fuzz fuzzers
set -u
cd "$(dirname "$0")/../.." || exit 70
seconds=$1
name=$2
build=build/fuzz
log=$build/log/$name
mkdir -p $build/log $build/found $build/corpus/"$name"
work=/tmp
[ -w /dev/shm ] && work=/dev/shm
work=$(mktemp -d "$work/trireme-fuzz-$name.XXXXXX")
trap 'rm -rf "$work"' EXIT

dictionary=()
[ -f tests/fuzz/corpus/"$name".dict ] && dictionary=(-dict=tests/fuzz/corpus/"$name".dict)

# The sanitizer keeps what was freed for a while: little, for its share of the memory limit.
TMPDIR=$work ASAN_OPTIONS=quarantine_size_mb=32:detect_stack_use_after_return=0 \
  LSAN_OPTIONS=suppressions=tests/support/leaks.supp:print_suppressions=0 \
  UBSAN_OPTIONS=print_stacktrace=1 \
  $build/tests/fuzz/fuzz_"$name" -max_total_time="$seconds" -max_len=4096 \
  -rss_limit_mb=512 -timeout=5 -print_final_stats=1 "${dictionary[@]}" \
  -artifact_prefix=$build/found/"$name"- \
  $build/corpus/"$name" tests/fuzz/corpus/"$name" >"$log" 2>&1
status=$?
awk '/^stat::number_of_executed_units/ { print "inputs", $2 }' "$log" >"$log.inputs"
if [ $status -eq 0 ]; then
  echo "fuzzing $name: $(cut -d' ' -f2 "$log.inputs") inputs"
else
  echo "fuzzing $name: FAILED with status $status"
  grep -vE '^#[0-9]+[[:space:]]|^INFO' "$log" | tail -60
fi
exit $status
