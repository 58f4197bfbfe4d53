#!/bin/sh
# What would hang with NCCL on GPUs is found by the emulation, and what is right is not.
# SPDX-License-Identifier: Apache-2.0
# Usage: nccl_faults.sh PROGRAM MPIEXEC.
program=$1
mpiexec=$2
failures=0
output=$(mktemp)
folder=$(mktemp -d)
trap 'rm -rf "$output" "$folder"' EXIT
ulimit -c 0

# expect FAULT RANKS TEXT [STATUS]: the message; an empty one: it ends well.
expect() {
  timeout 60 "$mpiexec" -n "$2" "$program" "$1" "$folder" >"$output" 2>&1
  status=$?
  if [ -n "${4:-}" ] && [ "$status" -ne "$4" ]; then
    failures=$((failures + 1))
    echo "FAILED: $1 on $2 ranks: status $status, want $4"
    cat "$output"
  elif { [ -z "$3" ] && [ $status -eq 0 ]; } ||
    { [ -n "$3" ] && [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q -e "$3" "$output"; }
  then
    echo "ok: $1 on $2 ranks"
  else
    failures=$((failures + 1))
    echo "FAILED: $1 on $2 ranks: status $status, want '${3:-status 0}'"
    cat "$output"
  fi
}

expect exchange 2 ''
expect receive_first 2 'deadlock: every process waits'
expect receive_first 2 'waits for message from'
expect load_before_message 2 ''
expect load_after_receive 2 'deadlock: every process waits'
expect one_order 4 ''
expect two_orders 4 'deadlock: every process waits'
expect sizes 2 'ranks of a communicator do not agree: .* all-reduce of 400 bytes'
expect late 2 "wait for this rank's GPU .* late: rank 1 .* never entered it" 82
expect stuck 2 "ncclCommSplit on axis 'data' waited 1.* s (comm.timeout_seconds = 1); NCCL" 82
lost="all_reduce #2 fp32\[65536\] on axis 'data' failed"
expect remote_error 2 "rank 0.*$lost: remote process exited .* (socket closed)" 71
expect system_error 2 "rank 1.*$lost: unhandled system error (socket closed)" 71
expect graph_error 2 "rank 0.*a launched graph on axis 'data' failed: remote process exited .* (socket closed)" 71
expect family_error 4 "rank 0.*all_reduce #1 fp32\[65536\] on axis 'tensor' failed: remote process exited .* (socket closed)" 71
expect recorded 2 ''
expect recorded_mixed 2 'ranks of a communicator do not agree: .* recorded all-reduce'
expect recorded_mesh 2 'a stream of this thread records'
expect recorded_mpi 2 "cannot be recorded in a graph: it does not go by NCCL"
expect recorded_host 2 "tensors of the host cannot be recorded"
exit $failures
