# Campaign: ranks that stop, die, sleep, throw or compute wrongly; what the others say.
# SPDX-License-Identifier: Apache-2.0
hangs_weight=60

hangs_case() {
  local ranks rank step kind words directory=$case_folder/run
  local kinds=(stop hang kill throw exit nan outside_stop pause kill_launcher flip_exponent)
  kind=${kinds[$1 % ${#kinds[@]}]}
  pick 2 2 3 4; ranks=$picked
  draw "$ranks"; rank=$drawn
  draw 4; step=$((drawn + 2))
  words="precision.compute=fp32 run.steps=6 checkpoint.every=2 checkpoint.keep=2"
  note "$kind at step $step on rank $rank"
  reference "$ranks" $words
  limit=90
  case $kind in
    outside_stop | pause | kill_launcher) "hangs_$kind" ;;
    *) run "$ranks" train "$deck" run.directory="$directory" $words \
      health.watchdog_seconds=2 health.check_replicas_every=1 debug.fault="$kind@$step@$rank" ;;
  esac
  case $kind in
    stop | hang | outside_stop) well_behaved 82; names "rank $rank" ;;
    throw) well_behaved 70; names "rank $rank" ;;
    # One rank's memory changed by itself, which the comparison of the ranks finds first.
    nan) well_behaved 81; names "after step $((step - 1))" ;;
    flip_exponent) well_behaved "81 80" ;;
    pause) well_behaved 0 ;;
    kill | kill_launcher | exit) [ "$status" != hang ] || lost "waits for a rank that is gone"
      [ "$status" != 0 ] || wrong "status 0 after a rank died" ;;
  esac
  nobody_left
  newest_counts "$directory"
  goes_on "$ranks" "$directory" $words
}

# One that is known to have the number.
rank_pid() {
  local pid
  find_ranks
  for pid in $ranks_pids; do
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$pid"
  done
}
hangs_launch() {
  launch "$ranks" train "$deck" run.directory="$directory" $words run.steps=100000 \
    $constant health.watchdog_seconds="$1" checkpoint.every=200
  words="$words $constant"
  stepped "$directory" $((step * 50)) || return 1
}
hangs_outside_stop() {
  hangs_launch 2
  kill -STOP "$(rank_pid "$rank")" 2>/dev/null
  finished
  hangs_length
}
# Shorter than the limit: nobody is to be alarmed.
hangs_pause() {
  local pid
  hangs_launch 8
  pid=$(rank_pid "$rank")
  kill -STOP "$pid" 2>/dev/null
  sleep 2
  kill -CONT "$pid" 2>/dev/null
  sleep 0.3
  touch "$directory/stop"
  finished
  [ "$status" != 75 ] || status=0
  hangs_length
}
hangs_kill_launcher() {
  hangs_launch 8
  kill -KILL "$(pgrep -s "$launched" -f "^$MPIRUN -n" | head -n 1)" 2>/dev/null
  finished
  nobody_left  # ranks without a launcher go on for steps, until they notice
  hangs_length
}
# The run is continued for as many steps as it did, and two: the reference is that long.
hangs_length() {
  local steps kept=$status
  steps=$(($(losses "$directory" | wc -l) + 2))
  words="$words run.steps=$steps checkpoint.every=$steps"
  cp "$case_folder/out" "$case_folder/out.kept"
  reference "$ranks" $words
  status=$kept
}
