# Campaign: SIGKILL at random moments, and in place of the n-th call that changes files.
# SPDX-License-Identifier: Apache-2.0
kills_weight=260

kills_case() {
  local ranks compute async words directory=$case_folder/run pause rank
  pick 1 1 1 2 2 2 4; ranks=$picked
  [ $(($1 % 40)) = 39 ] && ranks=8
  pick fp32 fp32 bf16 fp64; compute=$picked
  pick false true; async=$picked
  words="precision.compute=$compute run.steps=6 checkpoint.every=2 checkpoint.keep=1 model.layers=1
    batch.global=16 checkpoint.async=$async"
  reference "$ranks" $words
  draw "$ranks"; rank=$drawn
  if [ $(($1 % 2)) = 0 ]; then
    kills_at_call
  else
    kills_at_moment
  fi
  newest_counts "$directory"
  goes_on "$ranks" "$directory" $words
}

# Two in a row now and then: the second in what cleans up after the first.
kills_at_call() {
  local at calls again
  count_calls "$directory" "$ranks" "$rank" $words
  draw "$calls"; at=$((drawn + 1))
  faulty "$directory" "$rank" 4 $at 0
  run "$ranks" train "$deck" run.directory="$directory" $words
  faultless
  note "killed at call $at of $calls"
  [ "$status" != hang ] || lost "did not end after a rank was killed"
  draw 3
  if [ "$drawn" = 0 ]; then
    draw "$calls"; again=$((drawn + 1))
    faulty "$directory" "$rank" 4 $again 0
    run "$ranks" train "$deck" run.directory="$directory" $words
    faultless
    note "and again at call $again"
  fi
}
kills_at_moment() {
  local pids
  launch "$ranks" train "$deck" run.directory="$directory" $words
  draw_pause $(($(cat "$made/milliseconds") + 50))
  find_ranks
  pick one all launcher
  note "kills $picked"
  case $picked in
    one) pids=$(shuf -n 1 --random-source=<(yes "$drawn") <<<"$ranks_pids") ;;
    all) pids=$ranks_pids ;;
    launcher) pids=$(pgrep -s "$launched" -f "^$MPIRUN -n" | head -n 1) ;;
  esac
  [ -z "${pids:-$ranks_pids}" ] || kill -KILL ${pids:-$ranks_pids} 2>/dev/null
  finished
  [ "$status" != hang ] || lost "did not end after the kill"
  nobody_left
}

# faulty FOLDER RANK KIND AT ERRNO: the next runs meet a fault at a call below FOLDER.
faulty() {
  wrapper=(env "LD_PRELOAD=$IO_LIBRARY" "IO_FAULTS=$1:$3:$4:$5" "IO_FAULTS_REPORT=$case_folder/calls")
  [ "$ranks" = 1 ] || wrapper+=("IO_FAULTS_RANK=$2")
}
faultless() { wrapper=(); }
# count_calls FOLDER RANKS RANK WORDS...: that an undisturbed run makes, in $calls.
count_calls() {
  local folder=$1 sum
  shift
  sum=$(cksum <<<"calls ${folder#"$case_folder"} $*")
  local file=$work/references/${sum// /-}.calls
  if [ ! -s "$file" ]; then
    local ranks=$1 rank=$2
    shift 2
    faulty "$folder" "$rank" 0 0 0
    run "$ranks" train "$deck" run.directory="$case_folder/run" "$@"
    faultless
    well_behaved 0
    cp "$case_folder/calls" "$file.$BASHPID" 2>/dev/null || echo 1 >"$file.$BASHPID"
    mv "$file.$BASHPID" "$file"
    rm -rf "$case_folder/run"
  fi
  calls=$(cat "$file")
}
