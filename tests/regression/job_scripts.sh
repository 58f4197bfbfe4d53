#!/usr/bin/env bash
# The job scripts, shipped and generated, with stand-ins for Slurm's commands.
# SPDX-License-Identifier: Apache-2.0
# Tested are which ends start a job again, where signals go, and that no text runs as a
# command.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=$SOURCE/tests/regression/tiny.toml

# Stand-ins. A launcher writes its words to `words`, a line a word, and ends with what `status`
# says; with "wait" there it ends with 75 once `signals` holds two signals, or one TERM. The
# program notes its start where `begins` exists. Slurm calls the job what `state` says; the next
# `silent` questions it does not answer, and the next `busy` times it does not queue the job, which
# is not to be queued again where `final` exists.
mkdir "$work/bin" "$work/job" "$work/real"
cat >"$work/bin/srun" <<'END_OF_STAND_IN'
#!/bin/bash
cd "$STAND_INS" || exit 1
[ "$*" != --help ] || { [ -e old ] || echo "      --send-libs[=yes|no]"; exit; }
case " $* " in *" --overlap "*)  # do nodes answer?
  echo "$*" >>asked
  while [ -e runs ] && [ $# -gt 0 ]; do case $1 in bash) exec "$@" ;; *) shift ;; esac; done
  exec cat reachable ;;
esac
printf '<%s>\n' "${0##*/}" "$@" >words
echo "$TRIREME_ATTEMPT: $*" >>starts
[ ! -e begins ] || rm -f "$TRIREME_STARTS"
[ ! -e note ] || cat note >"$TRIREME_COPIES_NOTE"
echo "$TRIREME_MOST_STARTS" >most-starts
[ ! -e bad ] || cat bad >>"$TRIREME_BAD_HOSTS"
[ ! -e most ] || [ "$(wc -l <starts)" -lt "$(cat most)" ] || exit 0
[ ! -e left ] || mv left nodes
status=$(cat status)
[ ! -e next ] || mv next status
[ "$status" = wait ] || exit "$status"
# The loop has no "$(...)": bash 5.2 loses a signal that arrives while it reads one.
count=0
trap 'echo USR1 >>signals; count=$((count + 1))' USR1
trap 'echo TERM >>signals; count=2' TERM
: >signals
echo $$ >pid
for ((i = 0; i < 200; ++i)); do
  [ "$count" -lt 2 ] || exit 75
  sleep 0.05
done
exit 99
END_OF_STAND_IN
cat >"$work/bin/counted" <<'END_OF_STAND_IN'
#!/bin/bash
left=$(cat "$STAND_INS/$1" 2>/dev/null) && [ "$left" -gt 0 ] && echo $((left - 1)) >"$STAND_INS/$1"
END_OF_STAND_IN
cat >"$work/bin/scontrol" <<'END_OF_STAND_IN'
#!/bin/bash
[ "$*" != "show hostlist /dev/stdin" ] || { echo "n[$(grep -c .)]"; exit; }
echo "$*" >>"$STAND_INS/scontrol"
! counted silent || exit 1
case "$*" in
  *requeue*) ! counted busy || exit 1 ;;&
  *show*) echo "JobId=$(cat "$STAND_INS/job-id") ArrayJobId=3 JobName=x JobState=$(cat "$STAND_INS/state") Reason=None Requeue=$([ -e "$STAND_INS/final" ]; echo $?) Restarts=0" ;;
  *) exit "$(cat "$STAND_INS/refuses")" ;;
esac
END_OF_STAND_IN
cat >"$work/bin/scancel" <<'END_OF_STAND_IN'
#!/bin/bash
echo "$*" >>"$STAND_INS/scancel"
case "$*" in --signal=*) kill -TERM "$(cat "$STAND_INS/pid")" ;; esac
END_OF_STAND_IN
cat >"$work/bin/sinfo" <<'END_OF_STAND_IN'
#!/bin/bash
! counted silent || exit 1
echo "NODELIST STATE"
cat "$STAND_INS/nodes" 2>/dev/null
[ ! -e "$STAND_INS/later" ] || mv "$STAND_INS/later" "$STAND_INS/nodes"
END_OF_STAND_IN
cat >"$work/bin/squeue" <<'END_OF_STAND_IN'
#!/bin/bash
counted silent && exit
case "$*" in *%E*) echo "JOBID DEPENDENCY"; cat "$STAND_INS/waiting" 2>/dev/null ;; *) echo "n[1-10]" ;; esac
echo "$*" >>"$STAND_INS/squeue"
END_OF_STAND_IN
cat >"$work/bin/sleep" <<'END_OF_STAND_IN'
#!/bin/bash
[ "$1" = 10 ] || exec /bin/sleep "$@"
END_OF_STAND_IN
# The program, which says what the deck holds; after it has failed scripts end.
cat >"$work/bin/trireme" <<'END_OF_STAND_IN'
#!/bin/bash
echo "$*" >"$STAND_INS/inquiry"
[ ! -e "$STAND_INS/spares" ] || exec cat "$STAND_INS/spares"
[ ! -e "$STAND_INS/bad-deck" ] || { echo "trireme: error: bad" >&2; exit "$(cat "$STAND_INS/bad-deck")"; }
echo 0
END_OF_STAND_IN
chmod +x "$work/bin/"*
ln -s srun "$work/bin/mpirun"
ln -s srun "$work/bin/mpiexec"
export STAND_INS=$work/job SLURM_JOB_ID=9 SLURM_NTASKS=2
unset SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_RESTART_COUNT
PATH=$work/bin:$PATH

run 1 sweep "$deck" --directory "$work/sweep" --grid run.seed=1,2
check "a sweep's script" test -s "$work/sweep/sweep.sbatch"

# The last part of all scripts is one text.
common() { sed -n '/^# From here on all job scripts/,$p' "$1"; }
common jobs/train.sbatch >"$work/common"
check "there is a common part" test "$(wc -l <"$work/common")" -gt 20
for script in jobs/*.sbatch "$work/sweep/sweep.sbatch"; do
  check "${script##*/}: the common part" cmp <(common "$script") "$work/common"
  check "${script##*/}: bash reads it" bash -n "$script"
done

# job SCRIPT [WORD...]: runs it in a folder of its own; exit status in $status.
job() {
  : >"$work/job/scontrol"
  (cd "$work/job" && exec bash "$@") >"$work/out" 2>&1
  status=$?
}
again() { grep -qx "requeue ${1:-9}" "$work/job/scontrol"; }
not_again() { ! grep -q requeue "$work/job/scontrol"; }
no_count_left() { ! ls "$work/job/.trireme-starts."* 2>/dev/null; }
set_up() {  # STATUS STATE
  echo "$1" >"$work/job/status"
  echo "$2" >"$work/job/state"
  echo 0 >"$work/job/refuses"
  echo 9 >"$work/job/job-id"
  (cd "$work/job" && rm -rf asked begins bad bad-deck final spares note runs most left next starts nodes silent busy .trireme-starts.*)
  touch "$work/job/reachable"
}
starts() { cat "$work/job/starts"; }
started() { test "$(starts | wc -l)" = "$1"; }

# every SCRIPT WORDS...: what each end of the ranks leads to.
every() {
  local name=${1##*/} code
  set_up 75 RUNNING
  job "$@"
  check "$name: 75 starts again" again
  check "$name: and keeps the status" test "$status" = 75
  for state in COMPLETING CANCELLED PENDING TIMEOUT; do
    set_up 75 $state
    job "$@"
    check "$name: $state: not again" not_again
    check "$name: $state: keeps the status" test "$status" = 75
    check "$name: $state: no count is left" no_count_left
  done
  for code in 70 71 81 82 134 137 139; do
    set_up "$code" RUNNING
    job "$@"
    check "$name: $code: three starts in vain" started 3
    check "$name: $code: the third is told of the two" test "$(starts | tail -n 1 | cut -c1)" = 2
    check "$name: $code, not again" not_again
    check "$name: $code: keeps the status" test "$status" = "$code"
    check "$name: $code: no count is left" no_count_left
  done
  for code in 0 1 64 65 66 73 74 78 80 126 127; do
    set_up "$code" RUNNING
    job "$@"
    check "$name: $code: not again" not_again
    check "$name: $code: one start" started 1
    check "$name: $code: keeps the status" test "$status" = "$code"
  done
}

every "$SOURCE/jobs/train.sbatch" my.toml run.steps=3
for script in multi-node-cpu multi-node-gpu mpirun-openmpi mpiexec-mpich; do
  for state in RUNNING COMPLETING; do
    set_up 75 $state
    job "$SOURCE/jobs/$script.sbatch" my.toml 'run.name=a  b'
    check "$script: $state: the status" test "$status" = 75
    check "$script: $state: the words" grep -qx '<run.name=a  b>' "$work/job/words"
    case $state in RUNNING) check "$script: again" again ;; *) check "$script: cancelled" not_again ;; esac
  done
done
set_up 0 RUNNING
TRIREME_BCAST='/tmp/a b' job "$SOURCE/jobs/train.sbatch" my.toml
check "the program is sent to the nodes" grep -qx '<--bcast=/tmp/a b>' "$work/job/words"
check "with its libraries" grep -qx '<--send-libs>' "$work/job/words"
touch "$work/job/old"
TRIREME_BCAST='/tmp/a b' job "$SOURCE/jobs/train.sbatch" my.toml
check "not where Slurm cannot" test "$(grep -c -e --send-libs "$work/job/words")" = 0
rm "$work/job/old"
# A program that gets on may crash as often as it likes.
set_up 137 RUNNING
touch "$work/job/begins"
echo 6 >"$work/job/most"
job "$SOURCE/jobs/train.sbatch" my.toml
check "five crashes after the start was noted" started 6
check "and the end" test "$status" = 0
set_up 137 CANCELLED
job "$SOURCE/jobs/train.sbatch" my.toml
check "a crash of a job that was cancelled" not_again
check "a crash of a job that was cancelled: one start" started 1

# Which nodes the ranks start on again. A job of four nodes loses one: all of three ranks on
# each of the three that are left; with a spare node as many as before.
export SLURM_JOB_NUM_NODES=4 SLURM_NTASKS=12 SLURM_NTASKS_PER_NODE=3
all_nodes() { printf '%s allocated\n' n1 n2 n3 n10 >"$work/job/nodes"; }
lose() { sed "s/^$1 .*/$1 $2/" "$work/job/nodes" >"$work/job/left"; }
lists() { starts | grep -o 'nodelist=[^ ]*' | cut -d= -f2 | tr '\n' ' '; }
tasks() { starts | sed 's/.*ntasks=\([0-9]*\) .*/\1/' | tr '\n' ' '; }
for state in down 'down*' 'allocated*' failing; do
  set_up 137 RUNNING
  all_nodes
  lose n2 "$state"
  job "$SOURCE/jobs/train.sbatch" my.toml
  check "a node is $state: those that are left" test "$(lists)" = "n1,n3,n10 n1,n3,n10 "
  check "a node is $state: their ranks" grep -q -- '--nodes=3 .*--ntasks=9 ' <(starts | tail -n 1)
done
set_up 137 RUNNING
all_nodes
lose n2 'allocated*'
cp "$work/job/nodes" "$work/job/later"
job "$SOURCE/jobs/train.sbatch" my.toml
check "a node that answers again: all nodes" test "$(lists)" = ""
check "a node that answers again: all ranks" started 3
set_up 137 RUNNING
all_nodes
lose n2 down
job "$SOURCE/jobs/mpirun-openmpi.sbatch" my.toml
check "mpirun: those that are left" grep -q -- '-n 9 --host n1:3,n3:3,n10:3 ' <(starts | tail -n 1)
set_up 137 RUNNING
all_nodes
lose n2 down
job "$SOURCE/jobs/mpiexec-mpich.sbatch" my.toml
check "mpiexec: those that are left" grep -q -- '-n 9 -ppn 3 -hosts n1,n3,n10 ' <(starts | tail -n 1)
set_up 81 RUNNING
all_nodes
echo n3.cluster.org >"$work/job/bad"
job "$SOURCE/jobs/train.sbatch" my.toml
check "a node that the program names" test "$(lists)" = "n1,n2,n10 n1,n2,n10 "
check "the names are removed" test ! -e "$work/job/.trireme-bad-hosts.9"
# Copies in memory are removed on all nodes that are up, those that were left out too; a job
# that had one start has no such node.
removals() { grep -c 'rm -rf .*/trireme-$UID-$0-"[*] 9 /dev/shm$' "$work/job/asked"; }
check "copies: of nodes that were bad too" grep -q 'nodelist=n1,n2,n3,n10 --nodes=4 .*rm -rf' "$work/job/asked"
set_up 137 RUNNING
all_nodes
lose n2 down
echo 2 >"$work/job/most"
job "$SOURCE/jobs/train.sbatch" my.toml
check "copies: after a node was left out" test "$status" = 0 -a "$(removals)" = 1
check "copies: of nodes that are up" grep -q 'nodelist=n1,n3,n10 --nodes=3 .*rm -rf' "$work/job/asked"
set_up 0 RUNNING
all_nodes
job "$SOURCE/jobs/train.sbatch" my.toml
check "copies: one start" test ! -e "$work/job/asked"
# Where the program says that they lie, by a variable of the node; those of other jobs stay.
copies_at() {  # FOLDER
  set_up 137 RUNNING
  echo "$1" >"$work/job/note"
  touch "$work/job/runs"
  rm -rf "$work/node"
  mkdir -p "$work/node/a b/trireme-$UID-9-run/x" "$work/node/a b/trireme-$UID-99-run"
  NODE_MEMORY=$work/node job "$SOURCE/jobs/train.sbatch" my.toml
}
for folder in "$work/node/a b" '$NODE_MEMORY/a b'; do
  copies_at "$folder"
  check "copies: in $folder" test "$(ls "$work/node/a b")" = "trireme-$UID-99-run"
  check "copies: the note is removed" test ! -e "$work/job/.trireme-copies.9"
done
copies_at '$NO_SUCH_VARIABLE/a b'
check "copies: of no such variable none" test "$(ls "$work/node/a b" | wc -l)" = 2
# A budget of starts for each step, which the program is told.
set_up 137 RUNNING
TRIREME_MOST_STARTS=5 job "$SOURCE/jobs/train.sbatch" my.toml
check "five starts in vain" started 5
check "the program knows" test "$(cat "$work/job/most-starts")" = 5
for wrong in 0 x 3x ''; do
  set_up 137 RUNNING
  TRIREME_MOST_STARTS=$wrong job "$SOURCE/jobs/train.sbatch" my.toml
  case $wrong in '') check "no number: three" started 3 ;; *) check "no number of starts: $wrong" test "$status" = 64 ;; esac
done
export TRIREME_SPARE_NODES=1
set_up 137 RUNNING
all_nodes
lose n2 down
job "$SOURCE/jobs/train.sbatch" my.toml
check "a spare node" test "$(lists)" = "n1,n2,n3 n1,n3,n10 n1,n3,n10 "
check "a spare node: as many ranks" test "$(tasks)" = "9 9 9 "
export TRIREME_SPARE_NODES=4
set_up 0 RUNNING
job "$SOURCE/jobs/train.sbatch" my.toml
check "spare nodes alone" test "$status" = 64
unset TRIREME_SPARE_NODES
# What the deck says: run.spare_nodes.
spares() {  # NUMBER STATUS
  set_up "$2" RUNNING
  all_nodes
  lose n2 down
  echo "$1" >"$work/job/spares"
  job "$SOURCE/jobs/train.sbatch" my.toml --debug 2 run.seed=2 'run.name=a  b' 'batch.micro = 1'
}
spares 1 137
check "a spare node of the deck" test "$(lists)" = "n1,n2,n3 n1,n3,n10 n1,n3,n10 "
check "the deck and its overrides are asked" \
  grep -qx 'inspect my.toml run.seed=2 run.name=a  b batch.micro = 1 --value run.spare_nodes' "$work/job/inquiry"
for wrong in 4 -1 x '' '1 1'; do
  spares "$wrong" 0
  check "spare nodes of the deck: '$wrong'" test "$status" = 64
done
TRIREME_SPARE_NODES=1 spares 4 137
check "a variable goes before the deck" test "$(lists)" = "n1,n2,n3 n1,n3,n10 n1,n3,n10 "
for code in 64 65 66 71 127; do
  set_up 0 RUNNING
  echo $code >"$work/job/bad-deck"
  rm -f "$work/job/starts"
  job "$SOURCE/jobs/train.sbatch" my.toml
  check "a bad deck ends the job before a start: $code" test "$status" = $code -a ! -e "$work/job/starts"
  case $code in
    6?) check "a bad deck: the program's message alone" test "$(cat "$work/out")" = "trireme: error: bad" ;;
    *) check "no answer: $code: what does without" grep -q 'TRIREME_SPARE_NODES=0 does without' "$work/out" ;;
  esac
done
run 1 sweep "$deck" run.spare_nodes=7 --directory "$work/spares" --grid run.seed=1,2
set_up 0 RUNNING
SLURM_ARRAY_TASK_ID=0 job "$work/spares/sweep.sbatch"
check "a sweep asks the program itself" test "$status" = 64
check "and says what it answers" grep -qs '^spare nodes: 7 of 4' "$work/out" "$work/spares/slurm-0.out"
for code in 65 78; do
  set_up 137 RUNNING
  all_nodes
  lose n2 down
  echo $code >"$work/job/next"
  job "$SOURCE/jobs/train.sbatch" my.toml
  check "a deck that does not fit those that are left: $code" test "$status" = $code
  check "a deck that does not fit: Slurm starts it again" again
done
set_up 137 RUNNING
all_nodes
sed 's/ .*/ down/' "$work/job/nodes" >"$work/job/left"
job "$SOURCE/jobs/train.sbatch" my.toml
check "no node is left: one start" started 1
check "no node is left: Slurm starts it again" again
# Slurm that is busy or starts anew is asked again: for the nodes of the first start where there
# are spare ones, after a crash, and to queue the job.
silent() {  # STATUS QUESTIONS
  set_up "$1" RUNNING
  all_nodes
  echo "$2" >"$work/job/silent"
  job "$SOURCE/jobs/train.sbatch" my.toml
}
said() { grep -qx "job 9: not queued again after status $1: Slurm $2; to go on submit it again" "$work/out"; }
silent 75 5
check "Slurm is silent: 75 starts again" again
check "Slurm is silent: in one line" test "$(grep -c 'not queued' "$work/out")" = 0
silent 137 5
check "Slurm is silent: a crash starts again" started 3
TRIREME_SPARE_NODES=1 silent 137 5
check "Slurm is silent: spare nodes" test "$(lists)" = "n1,n2,n3 n1,n2,n3 n1,n2,n3 "
silent 75 1000
check "Slurm stays silent: the status" test "$status" = 75
check "Slurm stays silent: said" said 75 'does not answer'
check "Slurm stays silent: ten minutes of questions" test "$(wc -l <"$work/job/scontrol")" = 60
silent 137 1000
check "Slurm stays silent: a crash" started 1
check "Slurm stays silent: a crash: said" said 137 'does not answer'
rm "$work/job/starts"
TRIREME_SPARE_NODES=1 silent 0 1000
check "Slurm stays silent: spare nodes: no start" test "$status" = 71 -a ! -e "$work/job/starts"
check "Slurm stays silent: spare nodes: said" grep -q '^job 9: not started: Slurm does not say' "$work/out"
set_up 75 RUNNING
echo 3 >"$work/job/busy"
job "$SOURCE/jobs/train.sbatch" my.toml
check "Slurm is too busy to queue it" again
check "Slurm is too busy to queue it: the fourth time it does" test "$(grep -c requeue "$work/job/scontrol")" = 4
set_up 75 CANCELLED
job "$SOURCE/jobs/train.sbatch" my.toml
check "a job that was cancelled: said" said 75 'calls it CANCELLED'
# States of nodes may be hidden (PrivateData): nodes stay as they were, and spare ones are unknown.
set_up 137 RUNNING
job "$SOURCE/jobs/train.sbatch" my.toml
check "states of nodes are hidden" started 3
# One word of a command has 128 KiB at most.
set_up 137 RUNNING
printf 'compute-node-%05d allocated\n' $(seq 9000) >"$work/job/nodes"
lose compute-node-00002 down
SLURM_JOB_NUM_NODES=9000 SLURM_NTASKS=9000 SLURM_NTASKS_PER_NODE=1 \
  job "$SOURCE/jobs/train.sbatch" my.toml
check "names of 9000 nodes" test "$(lists)" = "n[8999] n[8999] "
check "names of 9000 nodes: they are tried" grep -q 'nodelist=n\[8999] --nodes=8999 .* true$' "$work/job/asked"
unset SLURM_JOB_NUM_NODES SLURM_NTASKS_PER_NODE
export SLURM_NTASKS=2
# A job that may not be requeued; another job's record; a count that cannot be kept.
set_up 75 RUNNING
echo 1 >"$work/job/refuses"
job "$SOURCE/jobs/train.sbatch" my.toml
check "not requeued by Slurm: the status" test "$status" = 75
check "not requeued by Slurm: no count is left" no_count_left
check "not requeued by Slurm: said" said 75 refuses
for code in 75 137; do
  set_up $code RUNNING
  touch "$work/job/final"
  [ $code = 75 ] || echo 'n1 down' >"$work/job/nodes"
  job "$SOURCE/jobs/train.sbatch" my.toml
  check "a job that may not be requeued: $code: Slurm is not asked to" not_again
  check "a job that may not be requeued: $code: the status" test "$status" = $code
  check "a job that may not be requeued: $code: said" grep -q \
    "^job 9: not queued again after status $code: it may not be .*; a later job of a chain goes on" "$work/out"
  check "a job that may not be requeued: $code: no count is left" no_count_left
done
set_up 75 RUNNING
echo 10 >"$work/job/job-id"
job "$SOURCE/jobs/train.sbatch" my.toml
check "another job's record" not_again
set_up 137 RUNNING
mkdir "$work/job/.trireme-starts.9"
job "$SOURCE/jobs/train.sbatch" my.toml
check "a crash that cannot be counted" not_again
echo 75 >"$work/job/status"
job "$SOURCE/jobs/train.sbatch" my.toml
check "a checkpoint needs no count" again

# A link of a chain takes with it those that wait for it where it ends for good; they are jobs of
# its name. One that may go on, or is done, leaves them to Slurm.
export SLURM_JOB_NAME=trireme TRIREME_CHAIN=yes
link() {  # STATUS [SCRIPT]
  set_up "$1" RUNNING
  touch "$work/job/final"
  rm -f "$work/job/scancel" "$work/job/squeue"
  printf '%s\n' '10 afternotok:9(unfulfilled)' '11 afternotok:9(unfulfilled),afternotok:10(unfulfilled)' \
    '12 afternotok:99(unfulfilled)' '13 afterany:9(unfulfilled)' '14 (null)' >"$work/job/waiting"
  job "$SOURCE/jobs/${2:-train}.sbatch" my.toml
  check "a chain: $1: the status" test "$status" = "$1"
}
chain_ends() { grep -qx '10 11' "$work/job/scancel"; }
chain_goes_on() { test ! -e "$work/job/scancel"; }
for script in train multi-node-cpu multi-node-gpu mpirun-openmpi mpiexec-mpich; do
  link 65 $script
  check "a chain: $script: ends with a wrong deck" chain_ends
done
check "a chain: pending jobs of this name were asked for" \
  grep -qx -- "-u $UID -t PENDING -n trireme -o %A %E" "$work/job/squeue"
check "a chain: said" grep -qx 'job 9: ends with status 65, and its chain with it: cancelled 10 11' "$work/out"
for code in 64 78 80 127 137; do
  link $code
  check "a chain: ends after $code" chain_ends
done
for code in 0 75; do
  link $code
  check "a chain: goes on after $code" chain_goes_on
done
TRIREME_MOST_STARTS=x link 64
check "a chain: a wrong number of starts" chain_ends
TRIREME_SPARE_NODES=9 link 64
check "a chain: more spare nodes than nodes" chain_ends
SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=1 link 65
check "a chain: a task of an array decides for no other" chain_goes_on
TRIREME_CHAIN='' link 65
check "no chain: jobs that wait are not its own" chain_goes_on
link 137
echo n1 down >"$work/job/nodes"
rm "$work/job/scancel"
job "$SOURCE/jobs/train.sbatch" my.toml
check "a chain: no node is left: the next has others" chain_goes_on
unset SLURM_JOB_NAME TRIREME_CHAIN

# A task of an array: it alone, by its name in the array, which for the last one differs from
# SLURM_JOB_ID in what Slurm takes it for: the whole array.
export SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=1
set_up 75 RUNNING
job "$work/sweep/sweep.sbatch" ""
check "a sweep: the task alone" again 9_1
check "a sweep: of which Slurm was asked" grep -q 'show job 9_1' "$work/job/scontrol"
unset SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID

# signal SCRIPT NAME COUNT: sends the script a signal, COUNT times.
signal() {
  local pid i
  set_up wait RUNNING
  rm -f "$work/job/pid" "$work/job/scancel"
  : >"$work/job/scontrol"
  (cd "$work/job" && exec bash "$SOURCE/jobs/$1" my.toml) >"$work/out" 2>&1 &
  pid=$!
  for _ in $(seq 200); do [ -s "$work/job/pid" ] && break; sleep 0.05; done
  for ((i = 1; i <= $3; ++i)); do
    kill -"$2" "$pid"
    for _ in $(seq 200); do [ "$(wc -l <"$work/job/signals")" -ge "$i" ] && break; sleep 0.05; done
  done
  wait "$pid"
  status=$?
}
for script in train multi-node-cpu mpirun-openmpi; do
  signal $script.sbatch USR1 2
  check "$script: USR1 goes on as it is" test "$(tr -d '\n' <"$work/job/signals")" = USR1USR1
  check "$script: USR1: the job starts again" again
  signal $script.sbatch TERM 1
  check "$script: TERM stops the ranks" test "$status" = 75
done
check "mpirun: TERM is two USR1" test "$(tr -d '\n' <"$work/job/signals")" = USR1USR1
signal train.sbatch TERM 1
check "srun: TERM goes to the ranks" grep -qx -- '--signal=TERM 9' "$work/job/scancel"

# Texts that a shell would take for more than words.
program=$work/real/'a b"$(touch PWNED)`touch PWNED`;{}'\''#&|*?$HOME'
mkdir "$program"
cp "$TRIREME" "$program/trireme"
export SLURM_ARRAY_TASK_ID=1
set_up 0 RUNNING
number=0
# quoted HERE SWEEP: a sweep that is made in folder HERE with --directory SWEEP runs one word
# after the other as it should, and makes no other file.
quoted() {
  local here=$work/quoted-$number/$1 name=$number
  number=$((number + 1))
  mkdir -p "$here"
  (cd "$here" && "$program/trireme" sweep "$deck" --directory="$2" \
    --grid 'run.name="$(touch PWNED)",'"'\`touch PWNED\`;'"',"a b #c"') >"$work/out" 2>&1
  check "text $name: made" test $? = 0
  sed -n '/^sbatch/,$p' "$work/out" >"$work/submit"
  script=$(cd "$here" && realpath -- "$2")/sweep.sbatch
  check "text $name: bash reads it" bash -n "$script"
  (cd "$work/job" && bash "$script") >"$work/out" 2>&1
  check "text $name: runs" test $? = 0
  printf '<%s>\n' srun --mpi=pmix --kill-on-bad-exit=1 --cpu-bind=cores "$program/trireme" \
    train --manifest "${script%sweep.sbatch}sweep.toml" --index 1 >"$work/expected"
  check "text $name: exactly these words" diff "$work/expected" "$work/job/words"
  # The command to submit, as a user copies it, reaches sbatch as one file.
  (cd "$here" && sbatch() { test -f "$2" && [[ $2 != -* ]] && test $# = 2; } && . "$work/submit") \
    >"$work/out" 2>&1
  check "text $name: the command to submit it" test $? = 0
}
quoted plain 'a b'
quoted $'x\ntouch PWNED #' sweep
quoted $'x\n#SBATCH --wrap=touch' "it's \$(touch PWNED)"
quoted '$(touch PWNED)' '`touch PWNED`'
quoted '";touch PWNED;"' "';touch PWNED;'"
quoted '%j %a' '100%'
quoted 'a\b' 'c\d"e'
quoted '-x' '--x'
quoted '#' '# touch PWNED'
quoted '{}' '${HOME}{}$HOME'
quoted $'tab\there' '~'
quoted $'\xff\xfe' $'sch\xc3\xb6n'
check "nothing else happened" test -z "$(find "$work" "$SOURCE" -maxdepth 6 -name 'PWNED*' -print -quit)"

# What a deck cannot hold as run.directory no task could train in: refused before anything is
# written.
mkdir "$work/refused"
for text in $'x\ntouch PWNED #' $'a\rb' $'a\x1b[1mb' $'\xff'; do
  (cd "$work/refused" && exec timeout 60 "$TRIREME" sweep "$deck" --directory "$text" \
    --grid run.seed=1,2) >"$work/out" 2>&1
  status=$?
  check "a directory that no run can have" expect 64 'directory'
done
check "was not made" test -z "$(ls -A "$work/refused")"
finish
