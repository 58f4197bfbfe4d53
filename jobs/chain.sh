#!/bin/bash
# A chain of jobs, for sites that forbid requeueing.
# SPDX-License-Identifier: Apache-2.0
# Each job starts when the one before has stopped for its time limit, and the rest leave
# the queue when the training is done.
#
# Usage: jobs/chain.sh COUNT [OPTION OF sbatch ...] SCRIPT DECK [section.key=value ...]
#   jobs/chain.sh 5 --nodes=8 jobs/train.sbatch my.toml
set -euo pipefail
count=${1:?usage: jobs/chain.sh COUNT [OPTION ...] SCRIPT DECK [section.key=value ...]}
shift

# afternotok: after any status but 0, so after 75. Once a job has done all steps, those that
# wait can never start, and --kill-on-invalid-dep removes them; each waits for all before it,
# as a job that was removed does not count as done.
before=
for ((i = 0; i < count; ++i)); do
  after=()
  [ -z "$before" ] || after=("--dependency=afternotok$before" --kill-on-invalid-dep=yes)
  job=$(sbatch --parsable --no-requeue "${after[@]}" "$@")
  job=${job%%;*}
  echo "$job"
  before+=:$job
done
