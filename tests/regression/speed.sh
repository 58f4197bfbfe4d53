#!/usr/bin/env bash
# The host of a rank that is slowed down, or whose memory is wrong, is excluded by name.
# SPDX-License-Identifier: Apache-2.0
# A slow rank is slower by a factor of 20, and limits are far below what a busy machine does to
# the others; whether ranks beside it are named is not asked.
. "$(dirname "$0")/lib.sh"
ulimit -c 0
host=$(uname -n)
host=${host%%.*}
list=$work/slow-hosts

says() { grep -q -- "$1" "$work/out" || { echo "not said: $1"; return 1; }; }
speed() { run "$1" selftest --speed --quick --device cpu --exclude "$list" "${@:2}"; }
lists_host() { [ "$(cat "$list")" = "$host" ]; }

run 2 selftest --speed --list
check "five measurements" test "$(wc -l <"$work/out")" = 5

echo old >"$list"
speed 4 --below 0
check "nobody is below 0" test "$status" = 0
check "a row for each measurement" \
  test "$(grep -c '^\(products\|memory\|patterns\|messages\|all_reduce\), ' "$work/out")" = 5
check "on a screen" test "$(wc -l <"$work/out")" -le 12
check "an old list is gone" test -f "$list" -a ! -s "$list"
speed 1 --below 0
check "one rank" test "$status" = 0

for what in products memory; do
  speed 3 --only "$what" --below 30 --fault "$what@1" --seconds 1
  check "$what: status and host" expect 81 "1 host is slow or wrong: $host. .*--exclude=$list"
  check "$what: the rank" says "host $host: $what 0.* of the median (rank 1)"
  check "$what: the list" lists_host
done
speed 4 --only messages --below 30 --fault 'messages@2' --seconds 1
check "messages: status" expect 81 "1 host is slow"
check "messages: the rank, not its partners" says "messages 0.* of the median (rank 2)"

export TRIREME_BAD_HOSTS=$work/bad-hosts
speed 2 --only patterns --fault 'patterns@1'
check "memory: status" expect 81 "rank 1 (host $host, memory of the CPU): byte 524288 of 1048576 is 0x"
check "memory: the host" says "host $host: wrong bytes in memory (rank 1)"
check "memory: the list" lists_host
check "the job's bad hosts" grep -qx "$host" "$TRIREME_BAD_HOSTS"

speed 2 --only nothing
check "no such measurement" expect 64 "no measurement is called 'nothing'"
speed 2 --fault norms@1
check "a fault nowhere" expect 64 "--fault: no measurement is called 'norms'"
run 2 selftest --exclude "$list"
check "without --speed" expect 64 "--exclude belongs to --speed"
run 2 selftest --speed --quick --exclude "$work/nowhere/list"
check "no such folder" expect 73 "no file can be made in '$work/nowhere/'"
run 1 selftest --speed --below 101
check "no such share" expect 64 "--below '101'"
finish
