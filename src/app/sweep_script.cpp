// SweepScript: the job array of a sweep, with every text quoted for the shell.
// SPDX-License-Identifier: Apache-2.0
#include "app/sweep_script.hpp"

#include <algorithm>
#include <cctype>

#include "app/shell.hpp"
#include "base/format.hpp"

namespace trireme::app {
namespace {

// What jobs/*.sbatch end with; regression.job_scripts holds them equal.
constexpr std::string_view start_and_again =
    R"sh(
# From here on all job scripts of Trireme are alike. USR1 and TERM that reach this script alone
# go on to the ranks. A job that stopped with a checkpoint (75) starts again; so does one that
# crashed or hung, unless three starts in a row got nowhere: the program removes the file of
# starts once it runs, and from then on refuses a fourth start from one step itself (78).
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}  # of the task alone
job=${job:-$SLURM_JOB_ID}
export TRIREME_STARTS=$folder/.trireme-starts.$job
most_starts=3
echo "start ${SLURM_RESTART_COUNT:-0}" >>"$TRIREME_STARTS" || most_starts=0

trap 'kill -USR1 "$ranks" 2>/dev/null' USR1
trap 'stop' TERM
launch "$@" &
ranks=$!
while kill -0 "$ranks" 2>/dev/null; do wait "$ranks"; done  # a signal cuts a wait short
wait "$ranks"
status=$?
trap '' USR1 TERM

again=no
case $status in
  75) again=yes ;;
  70 | 71 | 82 | 129 | 13[1-9] | 1[4-9]? | 2??)  # a signal; 130 is a second Ctrl-C
    starts=$(cat "$TRIREME_STARTS" 2>/dev/null | wc -l)
    [ "$starts" -lt "$most_starts" ] && again=yes ;;
esac
# Slurm calls a job that was cancelled or preempted, or is out of time, RUNNING no more.
case $again:$(scontrol --oneliner show job "$job" 2>/dev/null) in
  yes:"JobId=$SLURM_JOB_ID "*" JobState=RUNNING "*)
    scontrol requeue "$job" || rm -f "$TRIREME_STARTS" ;;
  *) rm -f "$TRIREME_STARTS" ;;
esac
exit $status
)sh";

// Where a task's log goes. Slurm reads its own lines by rules of its own: "%" begins a
// pattern; a backslash anywhere switches patterns off; a line's end ends the value. What
// a line cannot carry is left to the shell.
std::string log_lines(const std::string& sweep) {
  const bool carried = std::all_of(sweep.begin(), sweep.end(), [](unsigned char c) {
    return c != '\\' && std::iscntrl(c) == 0;
  });
  if (!carried)
    return "#SBATCH --output=/dev/null\n\nexec >>" + shell_quoted(sweep) +
           "/\"slurm-$SLURM_ARRAY_TASK_ID.out\" 2>&1\n";
  std::string value;
  for (const char c : sweep) {
    if (c == '"') value += '\\';
    if (c == '%') value += '%';
    value += c;
  }
  return "#SBATCH --output=\"" + value + "/slurm-%a.out\"\n\n";
}

}  // namespace

std::string_view end_of_job_scripts() { return start_and_again; }

std::string SweepScript::text() const {
  return format(
             R"sh(#!/bin/bash
# The points of a sweep as a job array; written by `trireme sweep`.
# Usage: sbatch [--array=...] sweep.sbatch [OFFSET], as `trireme sweep --resubmit` prints it.
# Change nodes, tasks, cores and times to what a point needs: {} ranks were checked.
#SBATCH --job-name=sweep
#SBATCH --array=0-{}
#SBATCH --ntasks={}
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
)sh",
             ranks, std::min<std::int64_t>(points - 1, 999), ranks) +
         log_lines(sweep) +
         format(
             R"sh(cd {} || exit 66  # paths in the deck are relative to here
built={}
trireme=${TRIREME:-$built}
folder={}
index=$((${1:-0} + SLURM_ARRAY_TASK_ID))

export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}  # Slurm 22.05 to 23.02 do not inherit it
export OMP_NUM_THREADS=$SRUN_CPUS_PER_TASK

launch() {
  exec srun --mpi="${TRIREME_SRUN_MPI:-pmix}" --kill-on-bad-exit=1 --cpu-bind=cores \
    "$trireme" train --manifest "$folder/sweep.toml" --index "$index"
}
stop() { scancel --signal=TERM "$job"; }  # srun itself would kill the ranks on TERM
)sh",
             shell_quoted(directory), shell_quoted(program), shell_quoted(sweep)) +
         std::string(start_and_again);
}

}  // namespace trireme::app
