# Helpers of the tests under Slurm.
# SPDX-License-Identifier: Apache-2.0
# They run the program in the jobs of jobs/, on a private cluster.
. "$(dirname "${BASH_SOURCE[0]}")/../regression/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"
cd "$SOURCE" || exit 1

# Counts of starts of jobs that were killed: their scripts could not remove them.
remove_starts() { rm -f $(seq -f ".trireme-starts.%.0f*" $first_job $((first_job + 99))); }

# Ranks that find what others left behind find it in order.
trap 'cluster_stop; rm -rf "$work"; remove_starts' EXIT
cluster_start "$work/cluster" 4
export TRIREME OMP_PLACES=threads
deck=tests/regression/tiny.toml
short="precision.compute=fp32 parallel.tensor=2 optimizer.schedule.name=constant"

# soon SECONDS COMMAND...: runs the command until it succeeds; a limit for hangs only.
soon() {
  local limit=$1 i
  shift
  for ((i = 0; i < limit * 10; ++i)); do
    "$@" && return
    sleep 0.1
  done
  echo "still not after $limit s: $*"
  return 1
}

state() { scontrol show job "$1" 2>/dev/null | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }
in_state() { [ "$(state "$1")" = "$2" ]; }
ended() { case $(state "$1") in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;; *) false ;; esac; }
restarts() { scontrol show job "$1" | grep -o 'Restarts=[0-9]*' | cut -d= -f2; }
exit_status() { scontrol show job "$1" | grep -o ' ExitCode=[0-9]*' | cut -d= -f2; }

# steps DIRECTORY: that the run in it has done.
steps() { field "$1/metrics.jsonl" loss 2>/dev/null | wc -l; }
has_steps() { [ "$(steps "$1")" -ge "$2" ]; }

tensors() { "$TRIREME" inspect "$1" --tensors | grep -E '^[0-9a-f]{32}' | sort; }

# identical A B: losses and tensors of two runs, to the bit.
identical() {
  field "$1/metrics.jsonl" loss >"$work/a"
  field "$2/metrics.jsonl" loss >"$work/b"
  [ -s "$work/a" ] && cmp "$work/a" "$work/b" || { paste "$work/a" "$work/b"; return 1; }
  tensors "$1" >"$work/a"
  tensors "$2" >"$work/b"
  [ -s "$work/a" ] && diff "$work/a" "$work/b"
}
