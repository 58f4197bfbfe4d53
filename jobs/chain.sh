#!/bin/bash
# A chain of jobs, for sites that forbid requeueing.
# SPDX-License-Identifier: Apache-2.0
# Each job starts when the one before has stopped for its time limit, and the rest leave the queue
# when the training is done, or when a job ends with what the next would fail of too: a wrong deck
# (65), no progress (78), training that diverged (80), three crashes in a row. After a job that was
# cancelled, or that Slurm has killed or lost, the next one starts.
#
# Usage: jobs/chain.sh COUNT [OPTION OF sbatch ...] SCRIPT DECK [section.key=value ...]
#   jobs/chain.sh 5 --nodes=8 jobs/train.sbatch my.toml
set -euo pipefail
count=${1:?usage: jobs/chain.sh COUNT [OPTION ...] SCRIPT DECK [section.key=value ...]}
shift
export TRIREME_CHAIN=yes  # by which a job's script knows that others may wait for it

# afternotok: after any status but 0, so after 75. Once a job has done all steps, those that
# wait can never start, and --kill-on-invalid-dep removes them; each waits for all before it,
# as a job that was removed does not count as done. Slurm tells no status from another: after one
# that ends the chain the job's script cancels the later jobs (end_chain).
before=
for ((i = 0; i < count; ++i)); do
  after=()
  [ -z "$before" ] || after=("--dependency=afternotok$before" --kill-on-invalid-dep=yes)
  job=$(sbatch --parsable --no-requeue "${after[@]}" "$@")
  job=${job%%;*}
  echo "$job"
  before+=:$job
done
