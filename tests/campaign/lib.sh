# What the classes of the campaign share: draws, runs, references and judgement.
# SPDX-License-Identifier: Apache-2.0
#
# A case runs in a folder of its own, $case_folder, and ends at its first verdict. What the
# program says is in $case_folder/out, how it left in $status ("hang": it had to be ended).

# --- the surroundings ---

campaign_begin() {
  SOURCE=${TRIREME_SOURCE:-$(cd "$here/../.." && pwd)}
  local build=$SOURCE/build/tests
  TRIREME=${TRIREME_PROGRAM:-$build/trireme}
  MPIRUN=${TRIREME_MPIEXEC:-mpirun}
  TOOL=${TRIREME_CAMPAIGN_TOOL:-$build/campaign_tool}
  IO_LIBRARY=${TRIREME_IO_FAULTS:-$(find "$build/tests" -name 'libio_faults.so' 2>/dev/null | head -n 1)}
  local needed
  for needed in "$TRIREME" "$TOOL" "$IO_LIBRARY"; do
    [ -e "$needed" ] && continue
    echo "there is no '$needed': build trireme, campaign_tool and io_faults" >&2
    exit 66
  done
  deck=$SOURCE/tests/regression/tiny.toml
  # Learning rates that do not depend on the number of steps: runs of other lengths compare.
  constant="optimizer.schedule.name=constant optimizer.schedule.warmup=0"
  program_name=$(basename "$TRIREME")
  program_name=${program_name:0:15}  # what the kernel keeps of it
  work=$(mktemp -d "${TMPDIR:-/tmp}/campaign.XXXXXX")
  trap campaign_end EXIT
  trap 'exit 130' INT TERM
  mkdir -p "$work/references" "$work/cases"
  # More ranks than cores, as everywhere in tests.
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_ess_singleton_isolated=1
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  export OMP_NUM_THREADS=1 OMP_PROC_BIND=false OPENBLAS_NUM_THREADS=1
  [ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  ulimit -c 0
  cd "$SOURCE" || exit 66
}

# descendants PROCESS: their numbers, the youngest generation last.
descendants() {
  local child
  for child in $(pgrep -P "$1"); do
    echo "$child"
    descendants "$child"
  done
}
# However the campaign ends: what it began ends with it.
# Cases first, so that they begin nothing new; then their sessions, and jobs of Slurm, whose
# ranks are nobody's children here but have a folder of this campaign among their words.
campaign_end() {
  local file
  declare -F slurm_end >/dev/null && slurm_end
  kill -KILL $(descendants $$) 2>/dev/null
  for file in "$work"/cases/*/sessions; do
    [ -e "$file" ] && case_folder=${file%/sessions} case_end
  done
  kill -KILL $(pgrep -f "run.directory=$work/") 2>/dev/null
  sleep 0.2
  rm -rf "$work"
}

case_begin() {
  case_folder=$work/cases/$class.$number
  mkdir -p "$case_folder/s"
  : >"$case_folder/out"
  export OMPI_MCA_orte_tmpdir_base=$case_folder/s
  draws_begin "$seed $class $number"
}

# Ends what the case left running; only sessions that it began.
case_end() {
  local session
  for session in $(cat "$case_folder/sessions" 2>/dev/null); do
    pkill -CONT -s "$session"
    pkill -KILL -s "$session"
  done
}

case_remove() { rm -rf "$case_folder"; }

# --- draws ---

# Knuth's generator on 64 bits; begun with the FNV-1a of a text.
draws_begin() {
  local i code
  draws_state=-3750763034362895579
  for ((i = 0; i < ${#1}; ++i)); do
    printf -v code '%d' "'${1:i:1}"
    draws_state=$(((draws_state ^ code) * 1099511628211))
  done
  draw 2
  draw 2
}
# draw N: a number from 0 to N - 1, in $drawn.
draw() {
  draws_state=$((draws_state * 6364136223846793005 + 1442695040888963407))
  drawn=$((((draws_state >> 33) & 0x3fffffff) % $1))
}
# pick WORD...: one of them, in $picked.
pick() {
  draw $#
  shift "$drawn"
  picked=$1
}
# draw_pause MILLISECONDS: sleeps for less than that.
draw_pause() {
  draw "$1"
  sleep "$((drawn / 1000)).$(printf %03d $((drawn % 1000)))"
}

# --- verdicts ---

verdict() {
  [ -s "$case_folder/verdict" ] || echo "$*" >"$case_folder/verdict"
  exit 0
}
wrong() { verdict wrong "$@"; }  # status, message, something left behind
lost() { verdict lost "$@"; }    # a hang, work that is gone, other numbers
skip() { verdict skipped "$@"; }
# note WORDS...: what the case does, for the report of a failure.
note() { echo "$*" >>"$case_folder/what"; }

# --- running the program ---

# ranked RANKS COMMAND...: the command on so many ranks, in $ranked.
ranked() {
  local ranks=$1
  shift
  ranked=("$@")
  [ "$ranks" = 1 ] || ranked=("$MPIRUN" -n "$ranks" "$@")
}
# launch RANKS ARGS...: in a session of its own, $launched. Words before the program come
# from $wrapper (env, a script), and its standard output goes to $output where that is set.
wrapper=() output=''
launch() {
  local ranks=$1 command
  shift
  ranked "$ranks" "${wrapper[@]}" "$TRIREME" "$@"
  command=("${ranked[@]}")
  rm -f "$case_folder/status"
  local text="${command[*]}"
  note "ranks $ranks: ${text:0:300}"
  setsid timeout -s KILL "${limit:-120}" bash -c 'file=$1; shift; "$@"; echo $? >"$file"' \
    campaign "$case_folder/status" "${command[@]}" \
    >"${output:-$case_folder/out}" 2>>"$case_folder/out" </dev/null &
  launched=$!
  echo $launched >>"$case_folder/sessions"
}
# finished: waits for what was launched.
finished() {
  wait "$launched" 2>/dev/null
  status=$(cat "$case_folder/status" 2>/dev/null)
  status=${status:-hang}
}
# run RANKS ARGS...: from start to end.
run() {
  : >"$case_folder/out"
  launch "$@"
  finished
}
# The processes of the program, not mpirun, in $ranks_pids.
find_ranks() { ranks_pids=$(pgrep -s "$launched" -x "$program_name"); }
# appeared RANKS: waits until that many ranks exist, begun or not; fails when the program is
# gone. On a busy machine mpirun takes seconds to start them.
appeared() {
  local i
  for ((i = 0; i < 3000; ++i)); do
    kill -0 "$launched" 2>/dev/null || return 1
    find_ranks
    [ "$(wc -w <<<"$ranks_pids")" -ge "$1" ] && return 0
    sleep 0.01
  done
  return 1
}
# ready RANKS: waits until that many ranks take SIGUSR1 themselves, by a handler (SigCgt) or
# by a thread that waits for it (SigBlk); fails when the program is gone.
ready() {
  local pid taken blocked i
  for ((i = 0; i < 3000; ++i)); do
    kill -0 "$launched" 2>/dev/null || return 1
    find_ranks
    if [ "$(wc -w <<<"$ranks_pids")" = "$1" ]; then
      for pid in $ranks_pids; do
        taken=$(awk '/^SigCgt/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        blocked=$(awk '/^SigBlk/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        (((0x${taken:-0} | 0x${blocked:-0}) & 0x200)) || continue 2
      done
      return 0
    fi
    sleep 0.01
  done
  return 1
}
# stepped DIRECTORY N: waits until the run has done N steps; fails when the program is gone.
stepped() {
  local i
  for ((i = 0; i < 6000; ++i)); do
    [ "$(grep -c '"loss":' "$1/metrics.jsonl" 2>/dev/null)" -ge "$2" ] 2>/dev/null && return 0
    kill -0 "$launched" 2>/dev/null || return 1
    sleep 0.01
  done
  return 1
}

# --- judgement ---

forbidden='terminate called|AddressSanitizer|runtime error:|HDF5-DIAG|\[json\.exception'
forbidden+='|gives no reason|malloc\(\)|free\(\)|corrupted size|double free|stack smashing'
forbidden+='|buffer overflow detected|Process received signal|what\(\): |basic_string|vector::'
forbidden+='|std::bad_alloc|\bstod\b|\bstoi\b'

# The launcher may forward an error between two halves of a line of standard output.
errors() { grep -ac 'trireme: error' "$case_folder/out"; }

# well_behaved STATUSES: the last run left with one of them, with one message if it failed
# and none if it did not, and without words of libraries. Statuses above 128 are those of a
# process that was killed from outside, which says nothing or one thing.
well_behaved() {
  local count
  [ "$status" != hang ] || lost "did not end within ${limit:-120} s"
  case " 134 135 136 139 " in
    *" $status "*) lost "crashed, status $status" ;;
  esac
  grep -aqE "$forbidden" "$case_folder/out" &&
    wrong "says $(grep -aoE "$forbidden" "$case_folder/out" | head -n 1), status $status"
  case " $1 " in
    *" $status "*) ;;
    *) wrong "status $status, not one of: $1" ;;
  esac
  count=$(errors)
  if [ "$status" = 0 ] || [ "$status" = 75 ]; then
    [ "$count" = 0 ] || wrong "$count error messages with status $status"
  elif [ "$status" -gt 128 ]; then
    [ "$count" -le 1 ] || wrong "$count error messages for one end"
  else
    [ "$count" = 1 ] || wrong "$count error messages with status $status"
  fi
  nobody_left
}
# names TEXT: the message has it.
names() {
  grep -aqF -- "$1" "$case_folder/out" || wrong "status $status, and the message does not name $1"
}
nobody_left() {
  local i
  for ((i = 0; i < 200; ++i)); do
    pgrep -s "$launched" >/dev/null || return 0
    sleep 0.05
  done
  lost "processes were left behind"
}

# --- runs to compare with ---

losses() { grep -ao '"loss":[^,}]*' "$1/metrics.jsonl" 2>/dev/null; }
# tensors PATH: a line for each tensor, its digest first; nothing where it cannot be read.
tensors() { "$TRIREME" inspect "$1" --tensors 2>/dev/null </dev/null | grep -aE '^[0-9a-f]{32} ' | sort; }

# reference RANKS WORDS...: an undisturbed run of the tiny deck, made once; its folder in
# $made, with losses and tensors beside.
reference() {
  local ranks=$1 key sum
  shift
  key="$ranks $OMP_NUM_THREADS $*"
  sum=$(cksum <<<"$key")
  made=$work/references/${sum// /-}
  exec 8>"$made.lock"
  flock 8
  if [ ! -e "$made/done" ]; then
    mkdir -p "$made"
    local begun=${EPOCHREALTIME/./}
    ranked "$ranks" "$TRIREME"
    timeout -s KILL 300 "${ranked[@]}" train "$deck" run.directory="$made/run" "$@" \
      >"$made/out" 2>&1 </dev/null ||
      { cp "$made/out" "$case_folder/out"; exec 8>&-; wrong "the undisturbed run failed: $key"; }
    echo $(((${EPOCHREALTIME/./} - begun) / 1000)) >"$made/milliseconds"
    losses "$made/run" >"$made/losses"
    tensors "$made/run" >"$made/tensors"
    touch "$made/done"
  fi
  exec 8>&-
}
# copy_run FOLDER: the reference's run, as a copy of its own.
copy_run() {
  rm -rf "$1"
  cp -a --reflink=auto "$made/run" "$1"
}
# as_reference DIRECTORY: losses and tensors are those of $made, to the bit.
as_reference() {
  losses "$1" >"$case_folder/losses"
  cmp -s "$case_folder/losses" "$made/losses" || lost "other losses than undisturbed"
  tensors_as_reference "$1"
}
tensors_as_reference() {
  tensors "$1" >"$case_folder/tensors"
  [ -s "$case_folder/tensors" ] || lost "the tensors cannot be read"
  cmp -s "$case_folder/tensors" "$made/tensors" || lost "other tensors than undisturbed"
}
# goes_on RANKS DIRECTORY WORDS...: the same command again, until it is done, and as the
# reference.
goes_on() {
  local ranks=$1 directory=$2 i
  shift 2
  for i in 1 2 3; do
    run "$ranks" train "$deck" run.directory="$directory" "$@"
    well_behaved "0 75"
    [ "$status" = 0 ] && break
  done
  [ "$status" = 0 ] || lost "did not come to its end in three starts"
  as_reference "$directory"
  tidy "$directory"
}
# tidy DIRECTORY: no leftovers, and `latest` names the newest.
tidy() {
  local newest
  newest=$(newest_step "$1")
  [ -z "$(find "$1/checkpoints" -maxdepth 1 -name '.*' -mindepth 1 2>/dev/null)" ] ||
    wrong "leftovers: $(ls -A "$1/checkpoints" | grep '^\.' | tr '\n' ' ')"
  [ "$(readlink "$1/checkpoints/latest")" = "$newest" ] ||
    lost "latest names $(readlink "$1/checkpoints/latest"), and the newest is $newest"
}
newest_step() {
  local step newest=''
  for step in "$1"/checkpoints/step-*; do
    [ -e "$step/manifest.json" ] && newest=${step##*/}
  done
  echo "$newest"
}
# newest_counts DIRECTORY: `inspect` on the run shows the newest whole checkpoint, if any.
newest_counts() {
  local newest
  newest=$(newest_step "$1")
  [ -n "$newest" ] || return 0
  run 1 inspect "$1" --verify
  well_behaved 0
  names "$newest"
}
