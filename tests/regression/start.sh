#!/usr/bin/env bash
# A rank that does not come through the start ends the job, and is named.
# SPDX-License-Identifier: Apache-2.0
# MPI itself would wait for it until the job's time limit.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml

# without RANK: runs three ranks, of which RANK waits for ever in place of the program.
mkfifo "$work/pipe"
without() {
  cat >"$work/rank.sh" <<EOF
[ "\$OMPI_COMM_WORLD_RANK" != $1 ] || read -r never <>"$work/pipe"
exec "$TRIREME" train $deck run.directory="$work/run"
EOF
  timeout 600 env TRIREME_START_SECONDS="$limit" \
    "$MPIRUN" -n 3 bash "$work/rank.sh" >"$work/out" 2>&1 </dev/null
  status=$?
}

# 1. a rank that never starts the program: rank 0 is one as good as any
limit=3
for rank in 1 0; do
  without $rank
  check "rank $rank never starts" expect 82 "in MPI_Init (TRIREME_START_SECONDS = 3)"
  check "rank $rank is named" \
    grep -q "rank $rank has not started the program (process [0-9]*, 'bash')" "$work/out"
  check "no rank stays" gone "$work/"
done

# 2. a limit that is none
limit=soon
without 3
check "a wrong limit" expect 64 "TRIREME_START_SECONDS = 'soon': give seconds"
finish
