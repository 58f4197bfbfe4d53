// SweepScript: the job array of a sweep, with every text quoted for the shell.
// SPDX-License-Identifier: Apache-2.0
#include "app/sweep_script.hpp"

#include <algorithm>
#include <cctype>

#include "app/shell.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"

namespace trireme::app {
namespace {

// What jobs/*.sbatch end with; regression.job_scripts holds them equal.
constexpr std::string_view start_and_again =
    R"sh(
# From here on all job scripts of Trireme are alike. USR1 and TERM that reach this script alone
# go on to the ranks. A job that stopped with a checkpoint (75) is queued again. Ranks that
# crashed, hung or computed wrongly start again in this allocation, on the nodes that Slurm can
# reach and the program has not named as bad: as many as before where run.spare_nodes of the
# job's are left for that, else fewer; where the deck does not fit these, the job is queued
# again. TRIREME_MOST_STARTS (3) starts in a row that got nowhere end the job: the
# program removes the file of starts once it runs, and from then on refuses one more start from
# the same step itself (78). Each newer checkpoint or copy renews them.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}  # of the task alone
job=${job:-$SLURM_JOB_ID}
export TRIREME_STARTS=$folder/.trireme-starts.$job TRIREME_ATTEMPT=0
export TRIREME_BAD_HOSTS=$folder/.trireme-bad-hosts.$job
export TRIREME_COPIES_NOTE=$folder/.trireme-copies.$job  # checkpoint.partner_directory
export TRIREME_MOST_STARTS=${TRIREME_MOST_STARTS:-3}
asked=         # for the end, by a signal between two starts
unanswered=0   # questions to Slurm, one after the other

# Sets `said` to what Slurm answers. A controller that is busy or starts anew says nothing: it is
# asked again, for ten minutes in all or until a signal comes. False without an answer.
ask() {
  local before=$asked
  while said=$("$@" 2>/dev/null); [ -z "$said" ]; do
    [ $((unanswered += 1)) -lt 60 ] && [ "$asked" = "$before" ] || return
    sleep 10
  done
  unanswered=0
}
# Of a job that ends for good, but not with all steps done: the later jobs of its chain
# (jobs/chain.sh), which would fail alike, leave the queue. They bear its name and wait for it.
end_chain() {
  local later
  [ -n "$TRIREME_CHAIN" ] && [ -z "$SLURM_ARRAY_JOB_ID" ] || return
  ask squeue -u "$UID" -t PENDING -n "$SLURM_JOB_NAME" -o '%A %E' || return
  later=$(grep -E "afternotok:$SLURM_JOB_ID([^0-9]|$)" <<<"$said" | cut -d ' ' -f 1 | paste -sd ' ')
  # shellcheck disable=SC2086  # a word for each job
  [ -z "$later" ] || ! scancel $later ||
    echo "job $job: ends with status $1, and its chain with it: cancelled $later"
}
give_up() {
  end_chain "$1"
  exit "$1"
}

if ! [[ $TRIREME_MOST_STARTS =~ ^[1-9][0-9]{0,5}$ ]]; then
  echo "TRIREME_MOST_STARTS=$TRIREME_MOST_STARTS: write a number from 1 to 999999" >&2
  give_up 64
fi
most_starts=$TRIREME_MOST_STARTS
all_nodes=${SLURM_JOB_NUM_NODES:-1}
settings=()  # of the deck, among options of train
for word in "$@"; do
  if [[ $word =~ ^[[:blank:]]*[a-z_]+(\.[a-z0-9_]+)+[[:blank:]]*= ]]; then settings+=("$word"); fi
done
spare_nodes=$TRIREME_SPARE_NODES
[ -n "$spare_nodes" ] || spare_nodes=$(deck_value run.spare_nodes) || {
  status=$?
  case $status in
    6[456]) ;;  # the program has said what is wrong with the deck
    *) echo "run.spare_nodes of the deck was not read: TRIREME_SPARE_NODES=0 does without" >&2 ;;
  esac
  give_up $status
}
if ! [[ $spare_nodes =~ ^[0-9]{1,7}$ ]] || [ "$spare_nodes" -ge "$all_nodes" ]; then
  echo "spare nodes: $spare_nodes of $all_nodes: ask for more nodes, --nodes" >&2
  give_up 64
fi
node_count=$((all_nodes - 10#$spare_nodes))
node_tasks=${SLURM_NTASKS_PER_NODE:-$(((${SLURM_NTASKS:-1} + node_count - 1) / node_count))}
most_nodes=$node_count
nodes=  # of the next start, with commas; none: all of the job, as Slurm gives them
tasks=$SLURM_NTASKS

# Sets `said` to a heading, and a line with the state of each node of the job.
ask_for_nodes() { ask squeue -h -j "$job" -o %N && ask sinfo -N -n "$said" -o '%N %T'; }
nodes_up() { awk 'NR > 1 && $2 !~ /down|fail|[*]/ && !seen[$1]++ { print $1 }' <<<"$said"; }
# The nodes for srun. One word of a command has 128 KiB at most: more names go in brackets.
srun_nodes() {
  if [ ${#nodes} -lt 60000 ]; then
    echo "$nodes"
  else
    tr , '\n' <<<"$nodes" | split -l 10000 --filter='scontrol show hostlist /dev/stdin' | paste -sd,
  fi
}

# Sets them. Nodes: those of the job that are neither down nor bad, in order, at most as many as
# the last start had. False where none is left. Where Slurm tells no states (PrivateData) those of
# the last start stay.
choose_nodes() {
  local up
  doubts=
  ask_for_nodes || said=
  if [[ $said != *$'\n'* ]]; then
    [ -n "$nodes" ] || [ "$node_count" = "$all_nodes" ]
    return
  fi
  doubts=$(awk '$2 !~ /down|fail/ && $2 ~ /[*]/' <<<"$said")
  mapfile -t up < <(nodes_up | grep -vxFf <(cut -d. -f1 "$TRIREME_BAD_HOSTS" 2>/dev/null))
  [ ${#up[@]} -gt 0 ] || return 1
  [ ${#up[@]} -ge "$node_count" ] || node_count=${#up[@]}
  [ "$node_count" -lt "$all_nodes" ] || return 0
  nodes=$(IFS=,; echo "${up[*]:0:node_count}")
  tasks=$((node_count * node_tasks))
  [ "$tasks" -le "${SLURM_NTASKS:-$tasks}" ] || tasks=$SLURM_NTASKS
}
on_each_node() {
  timeout 60 srun --overlap --mpi=none ${nodes:+--nodelist="$(srun_nodes)"} --nodes="$node_count" \
    --ntasks="$node_count" --ntasks-per-node=1 --cpus-per-task=1 "$@"
}
# A node may be gone before Slurm knows of it: each has to do something first. One that does not
# answer Slurm, but is not down, may only be busy: it is left out after a minute.
find_nodes() {
  local i last=$node_count last_nodes=$nodes last_tasks=$tasks
  for ((i = 0; i < 60; ++i)); do
    node_count=$last nodes=$last_nodes tasks=$last_tasks
    [ -z "$asked" ] && running && choose_nodes || return
    if [ -z "$doubts" ] || [ $i -ge 6 ]; then
      on_each_node true && return
    fi
    sleep 10
  done
  return 1
}
# Slurm calls a job that was cancelled or preempted, or is out of time, RUNNING no more.
running() {
  ask scontrol --oneliner show job "$job"
  case $said in
    "JobId=$SLURM_JOB_ID "*" JobState=RUNNING "*) ;;
    *) false ;;
  esac
}
# A controller that answers may still be too busy for this: it is asked six times. A job that
# may not be queued again (Requeue=0) is none to ask for.
requeue() {
  local i why
  for i in 1 2 3 4 5 6; do
    running || break
    if [[ $said = *" Requeue=0 "* ]]; then
      echo "job $job: not queued again after status $status: it may not be (Requeue=0, as by" \
        "--no-requeue); a later job of a chain goes on, else submit it again"
      return 1
    fi
    scontrol requeue "$job" && return
    [ $i = 6 ] || sleep 10
  done
  case $said in
    '') why="Slurm does not answer" ;;
    *" JobState=RUNNING "*) why="Slurm refuses" ;;
    *) why="Slurm calls it $(sed 's/.* JobState=\([A-Z_]*\).*/\1/' <<<"$said")" ;;
  esac
  echo "job $job: not queued again after status $status: $why; to go on submit it again"
  return 1
}

# Copies in memory (checkpoint.partner), of each node of the job that is up, wherever the ranks
# ran: a program that ends well removes those of its own nodes alone. It has noted where they lie;
# a variable at the beginning is the node's.
remove_copies() {
  local up find
  running || return
  ask_for_nodes && mapfile -t up < <(nodes_up)
  if [ ${#up[@]} -gt 0 ]; then
    node_count=${#up[@]} nodes=$(IFS=,; echo "${up[*]}")
  fi
  # shellcheck disable=SC2016  # the node's shell expands it
  find='at=$1; [[ $at != \$* ]] || { name=${at%%/*}; name=${name#?}; at=${!name:?}${at#"${at%%/*}"}; }'
  on_each_node bash -c "$find"'; rm -rf "$at/trireme-$UID-$0-"*' "$job" "${TRIREME_COPIES:-${copies:-/dev/shm}}"
}

[ "$node_count" = "$all_nodes" ] || choose_nodes || {
  echo "job $job: not started: Slurm does not say which of its nodes are up; submit it again" >&2
  exit 71
}
while true; do
  echo "start ${SLURM_RESTART_COUNT:-0}.$TRIREME_ATTEMPT" >>"$TRIREME_STARTS" || most_starts=0
  trap 'kill -USR1 "$ranks" 2>/dev/null' USR1
  trap 'stop' TERM
  launch "$@" &
  ranks=$!
  while kill -0 "$ranks" 2>/dev/null; do wait "$ranks"; done  # a signal cuts a wait short
  wait "$ranks"
  status=$?
  trap 'asked=yes' USR1 TERM  # between two starts
  again=no
  case $status in
    75) again=queued ;;
    65 | 78) [ "$node_count" -ge "$most_nodes" ] || again=queued ;;  # too few for the deck
    70 | 71 | 81 | 82 | 129 | 13[1-9] | 1[4-9]? | 2??)  # a signal; 130 is a second Ctrl-C
      starts=$(cat "$TRIREME_STARTS" 2>/dev/null | wc -l)
      [ "$starts" -lt "$most_starts" ] && again=here ;;
  esac
  [ $again = here ] && find_nodes || break
  [ -z "$asked" ] || break
  TRIREME_ATTEMPT=$((TRIREME_ATTEMPT + 1))
  echo "job $job: start $TRIREME_ATTEMPT after status $status, on ${nodes:-all nodes}"
done
trap '' USR1 TERM

copies=$(cat "$TRIREME_COPIES_NOTE" 2>/dev/null)
rm -f "$TRIREME_BAD_HOSTS" "$TRIREME_COPIES_NOTE"
[ $again != no ] && requeue && exit $status
[ $again != no ] || [ $status = 0 ] || end_chain $status
rm -f "$TRIREME_STARTS"
case $status in
  0 | 6[456] | 73 | 75) [ "$TRIREME_ATTEMPT" -gt 0 ] && remove_copies ;;  # of nodes left out
  *) remove_copies ;;
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
# Change nodes, tasks, cores and times to what a point needs: {} checked.
#SBATCH --job-name=sweep
#SBATCH --array=0-{}
#SBATCH --ntasks={}
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --open-mode=append
)sh",
             counted(ranks, "rank") + (ranks == 1 ? " was" : " were"),
             std::min<std::int64_t>(points - 1, 999), ranks) +
         log_lines(sweep) +
         format(
             R"sh(cd {} || exit 66  # paths in the deck are relative to here
built={}
trireme=${TRIREME:-$built}
folder={}
index=$((${1:-0} + SLURM_ARRAY_TASK_ID))
[ "${1:-0}" = 0 ] || exec >>"$folder/slurm-$index.out" 2>&1  # Slurm knows no offset

export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}  # Slurm 22.05 to 23.02 do not inherit it
export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-tree}  # why: docs/decisions/slurm-fences.md
export OMP_NUM_THREADS=$SRUN_CPUS_PER_TASK

send_libs=  # the program's libraries too, except the system's: from Slurm 22.05 on
if [ -n "$TRIREME_BCAST" ] && srun --help 2>/dev/null | grep -q -- --send-libs; then
  send_libs=--send-libs
fi

launch() {
  exec srun ${nodes:+--nodes="$node_count" --nodelist="$(srun_nodes)" --ntasks="$tasks"} \
    --mpi="${TRIREME_SRUN_MPI:-pmix}" --kill-on-bad-exit=1 --cpu-bind=cores \
    ${TRIREME_BCAST:+--bcast="$TRIREME_BCAST"} $send_libs \
    "$trireme" train --manifest "$folder/sweep.toml" --index "$index"
}
stop() { scancel --signal=TERM "$job"; }  # srun itself would kill the ranks on TERM
deck_value() { "$trireme" inspect --manifest "$folder/sweep.toml" --index "$index" --value "$1"; }
)sh",
             shell_quoted(directory), shell_quoted(program), shell_quoted(sweep)) +
         std::string(start_and_again);
}

}  // namespace trireme::app
