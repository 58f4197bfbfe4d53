#!/bin/sh
# Each fault ends all ranks with its status and its one message.
# SPDX-License-Identifier: Apache-2.0
# Usage: comm_faults.sh PROGRAM MPIEXEC.
program=$1
mpiexec=$2
failures=0
output=$(mktemp)
TRIREME_TEST_FOLDER=$(mktemp -d)
export TRIREME_TEST_FOLDER
trap 'rm -rf "$output" "$TRIREME_TEST_FOLDER"' EXIT
ulimit -c 0

# fault ranks status lines text...: the status, how many lines of ours, and parts of lines
expect() {
  if [ -n "${TRIREME_TEST_DEVICE:-}" ]; then
    case $1 in  # the others never look at where a tensor lies
      none | in_flight | late | swapped | short | watchdog | gpu | gpu_asleep) ;;
      *) return ;;
    esac
  fi
  fault=$1 ranks=$2 want=$3 want_lines=$4
  shift 4
  : >"$output"
  # Straight into the file: mpirun does not pass on what a rank says after the abort.
  timeout 40 "$mpiexec" -n "$ranks" sh -c 'exec "$@" 2>>"$0"' "$output" "$program" "$fault" \
    >>"$output" 2>&1
  status=$?
  lines=$(grep -c '^trireme: error: ' "$output")
  missing=
  for text; do
    grep -q -e "$text" "$output" || missing="$missing, want '$text'"
  done
  if [ "$status" -ne "$want" ] || [ "$lines" -ne "$want_lines" ] || [ -n "$missing" ]; then
    failures=$((failures + 1))
    echo "FAILED: $fault on $ranks ranks: status $status (want $want)," \
      "$lines lines (want $want_lines)$missing"
    cat "$output"
  else
    echo "ok: $fault on $ranks ranks"
  fi
}

for ranks in 3; do
  last=$((ranks - 1))
  expect none $ranks 0 0 'done'
  expect throw_one $ranks 81 1 "rank $last: bit 7 flipped"
  expect throw_all $ranks 80 1 'rank 0: loss is nan'
  expect internal $ranks 70 1 'an invariant broke (.*comm_faults.cpp:[0-9]*)'
  expect memory $ranks 78 1 'out of memory'
  expect agreed $ranks 66 1 "error: rank $last: no file"
  expect in_flight $ranks 74 1 'lost in flight'
  expect in_flight_all $ranks 74 1 'lost on every rank'
  expect woken $ranks 82 1 'late: rank 0 (host'
  expect late $ranks 82 1 "all_reduce #2 fp32\[1000\] on axis 'everyone' .*late: rank $last (host .*) never entered it"
  expect late_without_disk $ranks 82 1 "all_reduce #2 fp32\[1000\] .*late: rank $last (host .*) never entered it"
  expect late_at_barrier $ranks 82 1 "barrier #.* on axis 'world' .*late: rank $last (host"
  expect late_at_start $ranks 82 1 "(TRIREME_START_SECONDS = 2.5); late: rank $last (host"
  expect swapped $ranks 82 1 "out of step: .* in all_reduce #2 .*; rank $last in broadcast #2"
  expect axes $ranks 82 1 "out of step: .*rank $last in all_reduce #1 fp32\[1048576\] on axis 'replicas'"
  expect short $ranks 82 1 'bytes.*the ranks disagree about the size'
  expect long $ranks 82 1 'bytes.*the ranks disagree about the size'
  expect large $ranks 82 1 'bytes.*the ranks disagree about the size'
  expect killed $ranks 137 0 'signal 9'
  expect segv $ranks 70 1 "rank $last: killed by SIGSEGV"
  expect slow_worker $ranks 82 1 'late: rank 0 (host'
  # The watchdog: who is named, where, and no false alarm.
  late="rank $last (host .*) has not entered all_reduce #2 fp32\[1000\] (4000 bytes) on axis 'everyone' of ranks 0-$last"
  expect watch_sleep $ranks 82 1 "$late" \
    "^  rank $last (host .*): 'training step', 7 steps done, .* in no collective" \
    "^  rank 0 (host .*): .* in all_reduce #2"
  expect watch_stop $ranks 82 1 "$late"
  expect watch_stop_at_once $ranks 82 1 "rank $last (host .*) has not entered all_reduce #1 .* on axis 'tensor'"
  expect watch_skip $ranks 82 1 "rank $last (host .*) has not entered all_reduce #2\|out of step: rank $last"
  expect watch_swap $ranks 82 1 "out of step: rank $last (host .*) in broadcast #2 .*; rank 0 .* in all_reduce #2 fp32\[1000\]"
  expect watch_axis $ranks 82 1 "rank $last (host .*) has not entered all_reduce #2"
  expect watch_in_flight $ranks 82 1 "rank $last (host .*) waits for no rank and does not get on"
  expect watch_pair $ranks 82 1 "rank $last (host .*) has not entered all_reduce #2\|rank $last (host .*) waits for no rank"
  expect watch_count $ranks 82 1 "the ranks disagree about the size"
  expect watch_long_count $ranks 82 1 "the ranks disagree about the size"
  expect watch_slow $ranks 0 0 'done'
  expect watch_save $ranks 0 0 'done'
  expect watch_continued $ranks 0 0 'done'
  # Compared before they start: each is named, with what both sides want.
  compared="out of step on axis 'everyone' (debug.check_collectives)"
  expect compared_none $ranks 0 0 'done'
  expect compared_type $ranks 82 1 "$compared: .*rank $last wants all_reduce #3 bf16\[2000\]" \
    "ranks 0, 1 want all_reduce #3 fp32\[1000\]"
  expect compared_count $ranks 82 1 "$compared: .*rank $last wants all_reduce #3 fp32\[900\]"
  expect compared_order $ranks 82 1 "$compared: .*rank $last wants broadcast #3"
  expect compared_root $ranks 82 1 "$compared: .*rank $last wants broadcast #3 fp32\[1000\] from 1"
  expect compared_sum $ranks 82 1 "$compared: .*rank $last wants all_reduce #3 .* of the maximum"
  expect compared_axis $ranks 82 1 "rank $last in the check before all_reduce #1 fp32"
  expect gpu $ranks 71 1 "rank $last.*: all_reduce #7 fp32\[9\] on axis 'data' failed"
  expect gpu_asleep $ranks 71 1 "rank $last.*: all_reduce #7 fp32\[9\] on axis 'data' failed"
done

# More ranks than judge a hang.
expect throw_all 12 80 1 'error: rank 0: loss is nan'
expect late 12 82 1 "rank 0 (host .*): all_reduce #2 fp32\[1000\] .*; late: rank 11 (host [^,]*) is in no collective$"
expect late_apart 12 82 1 "rank 0 (host .*; late: rank 11 (host [^,]*) is in no collective$"
expect swapped 12 82 1 "out of step: ranks 0, 1, 2, 3, 4, 5, 6, 7, and 3 more in all_reduce #2 .*; rank 11 in broadcast #2"
expect late_judges 12 82 1 "rank 2 (host .*; late: rank 0 (host .*, rank 1 (host .*, rank 3 (host .*, rank 11 (host .*; of others nothing is known"

# Two single processes that were meant to be one job of two.
SLURM_PROCID=0 SLURM_NTASKS=2 "$program" none >"$output" 2>&1
if [ $? -ne 78 ] || ! grep -q 'launcher started 2 processes' "$output"; then
  echo "FAILED: singletons"
  cat "$output"
  failures=$((failures + 1))
fi
exit $((failures > 0))
