#!/bin/bash
# A chain of jobs, for sites that forbid requeueing: each starts when the one before has
# stopped for its time limit, and the rest leave the queue when the training is done.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: jobs/chain.sh COUNT [OPTION OF sbatch ...] SCRIPT DECK [section.key=value ...]
#   jobs/chain.sh 5 --nodes=8 jobs/train.sbatch my.toml
set -euo pipefail
count=${1:?usage: jobs/chain.sh COUNT [OPTION ...] SCRIPT DECK [section.key=value ...]}
shift

# afternotok: after any status but 0, so after 75. A job whose turn can no longer come, as
# the one before has done all steps, is removed by --kill-on-invalid-dep.
after=()
for ((i = 0; i < count; ++i)); do
  job=$(sbatch --parsable --no-requeue "${after[@]}" "$@")
  job=${job%%;*}
  echo "$job"
  after=("--dependency=afternotok:$job" --kill-on-invalid-dep=yes)
done
