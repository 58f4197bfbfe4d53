#!/usr/bin/env bash
# The commands of the page "your first hour on a cluster" work as they stand there.
# SPDX-License-Identifier: Apache-2.0
# They are run one after the other. Blocks marked `bash` are run; `sh` (building) and
# `text` are not.
. "$(dirname "$0")/lib.sh"

# What `cmake --install` would have made.
export HOME=$work/home
mkdir -p "$HOME/trireme/bin" "$HOME/trireme/share/trireme" "$HOME/trireme/share/doc/trireme"
ln -s "$TRIREME" "$HOME/trireme/bin/trireme"
ln -s "$SOURCE/inputs" "$SOURCE/jobs" "$HOME/trireme/share/trireme/"
ln -s "$SOURCE/docs" "$HOME/trireme/share/doc/trireme/"
unset TRIREME

awk '/^```/ { on = /^```bash$/; next } on' docs/first-hour-on-a-cluster.md >"$work/guide"
timeout 300 bash -euo pipefail "$work/guide" >"$work/out" 2>&1 </dev/null
status=$?
sed -n '/ranks     4 on/,/^  3 /p' "$work/out"
check "every command of the page" test "$status" = 0
check "all steps were done" test "$(steps "$HOME/first-hour/runs/first")" = 40
check "the chain did its steps" test "$(steps "$HOME/first-hour/runs/chained")" = 40
check "in one job of three" test "$(cat "$HOME/first-hour"/trireme.*.out | grep -c '  run chained in')" = 1
finish
