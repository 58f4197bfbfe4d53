# Campaign: jobs of a private Slurm of four nodes under attack.
# SPDX-License-Identifier: Apache-2.0
# They are cancelled, signalled and requeued, and lose a node.
slurm_weight=40

. "$here/../slurm/cluster.sh"

slurm_begin() {
  slurm_up=0
  # cluster_skip leaves the shell, so a smaller one is tried in another shell first.
  (
    trap cluster_stop EXIT
    cluster_start "$work/try" 1
  ) >"$work/slurm.out" 2>&1 || return 0
  cluster_start "$work/cluster" 4
  slurm_up=1
  export TRIREME OMP_PLACES=threads
}
slurm_end() {
  local file
  [ "${slurm_up:-0}" = 1 ] || return 0
  slurm_up=0
  for file in "$work"/cluster/slurmd.n*; do
    [ -e "$file" ] && slurmd_pid[${file##*.}]=$(cat "$file")
  done
  cluster_stop
}

slurm_case() {
  [ $slurm_up = 1 ] || skip "$(tail -n 1 "$work/slurm.out")"
  local kinds=(cancel usr1_batch usr1 term requeue node kill_rank stop_file cancel_array)
  local kind=${kinds[$1 % ${#kinds[@]}]} compute directory=$case_folder/run nodes
  pick fp32 bf16; compute=$picked
  pick 1 2 4; nodes=$picked
  launched=$$
  # A node that is lost disturbs other jobs there: that case runs alone.
  exec 6>"$work/cluster/cases.lock"
  if [ "$kind" = node ]; then flock 6; else flock -s 6; fi
  words="precision.compute=$compute $constant checkpoint.every=50"
  note "$kind, $compute, $nodes nodes"
  slurm_submit
  slurm_soon 90 slurm_has_steps 20 || lost "the job did not begin: $(slurm_state)"
  draw_pause 1500
  "slurm_$kind"
}

slurm_state() { scontrol show job "$job" 2>/dev/null | grep -o 'JobState=[A-Z_]*' | head -n 1 | cut -d= -f2; }
slurm_restarts() { scontrol show job "$job" | grep -o 'Restarts=[0-9]*' | head -n 1 | cut -d= -f2; }
slurm_has_steps() { [ "$(losses "$directory" | wc -l)" -ge "$1" ]; }
# By Slurm, or in its allocation by its script.
slurm_restarted() {
  [ "$(slurm_restarts)" -ge 1 ] || grep -aqE '^job [0-9]+: start [0-9]+ after status' "$case_folder/out"
}
slurm_ended() { case $(slurm_state) in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;; *) false ;; esac; }
slurm_soon() {
  local limit=$1 i
  shift
  for ((i = 0; i < limit * 5; ++i)); do
    "$@" && return
    sleep 0.2
  done
  return 1
}
slurm_submit() {
  local ranks=$((4 / nodes))
  job=$(sbatch --parsable --nodes="$nodes" --ntasks-per-node="$ranks" --cpus-per-task=1 \
    --output="$case_folder/out" "$@" jobs/train.sbatch "$deck" run.directory="$directory" $words \
    run.steps=1000000 2>>"$case_folder/out") || wrong "sbatch refused"
  # However the case ends, nothing of it is left for the next.
  trap 'scontrol update JobId=$job Requeue=0; scancel --signal=KILL "$job"; scancel "$job"' EXIT
}
# It begins again, gets on, and is stopped for good; what it did is what an undisturbed run does.
slurm_continues() {
  local before
  slurm_soon 120 slurm_restarted || lost "was not started again: $(slurm_state)"
  before=$(losses "$directory" | wc -l)
  slurm_soon 120 slurm_has_steps $((before + 20)) || lost "does not get on: $(slurm_state)"
  slurm_finish
}
slurm_finish() {
  scontrol update JobId="$job" Requeue=0 2>/dev/null
  touch "$directory/stop"
  slurm_soon 90 slurm_ended || lost "does not end: $(slurm_state)"
  slurm_compare
}
slurm_compare() {
  local steps
  grep -aqE "$forbidden" "$case_folder/out" &&
    wrong "says $(grep -aoE "$forbidden" "$case_folder/out" | head -n 1)"
  steps=$(($(losses "$directory" | wc -l) + 2))
  words="${words/checkpoint.every=50/} run.steps=$steps checkpoint.every=$steps"
  reference 4 $words
  goes_on 4 "$directory" $words
}

# Cancelled is cancelled.
slurm_cancel() {
  scancel "$job"
  slurm_soon 40 slurm_ended || lost "scancel does not end it: $(slurm_state)"
  sleep 3
  [ "$(slurm_state)" = CANCELLED ] || wrong "state $(slurm_state) after scancel"
  [ "$(slurm_restarts)" = 0 ] || wrong "started again after scancel"
  slurm_compare
}
slurm_cancel_array() { slurm_cancel; }
slurm_usr1_batch() { scancel --signal=USR1 --batch "$job"; slurm_continues; }
slurm_usr1() { scancel --signal=USR1 "$job"; slurm_continues; }
slurm_term() { scancel --signal=TERM "$job"; slurm_continues; }
slurm_requeue() { scontrol requeue "$job"; slurm_continues; }
slurm_stop_file() { slurm_finish; }
# A crash of a rank: started again by the script, or failed and continued by hand.
slurm_kill_rank() {
  local pid ranks=()
  for pid in $(pgrep -x "$program_name"); do
    grep -qa "run.directory=$directory" "/proc/$pid/cmdline" && ranks+=("$pid")
  done
  [ ${#ranks[@]} -gt 0 ] || wrong "there is no rank to kill"
  pid=$(shuf -n 1 -e "${ranks[@]}")
  kill -KILL "$pid" || wrong "rank $pid cannot be killed"
  slurm_continues
}
# Its daemon is killed, and put back for those who come later.
slurm_node() {
  local node file pid
  node=$(scontrol show hostnames "$(squeue -h -j "$job" -o %N)" | tail -n 1)
  exec 7>"$work/cluster/node.lock"
  flock 7
  file=$work/cluster/slurmd.$node
  pid=$(cat "$file" 2>/dev/null)
  kill -9 "${pid:-${slurmd_pid[$node]}}" 2>/dev/null
  slurm_soon 60 slurm_restarted
  setsid slurmd -D -N "$node" >>"$work/cluster/slurmd-$node.out" 2>&1 6>&- 7>&- &
  echo $! >"$file"
  flock -u 7
  slurm_continues
}
