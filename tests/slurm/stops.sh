#!/usr/bin/env bash
# A campaign: runs under Slurm are stopped and continued again and again.
# SPDX-License-Identifier: Apache-2.0
# Each stop comes in another way at another moment. No start may crash, and the end must
# have the bits of an undisturbed run. Prints a table, and for what went wrong a line that
# does it again.
#
#   TRIREME_STOPS=<n>    stops of each run (default: 60, a quarter of an hour)
#   TRIREME_RUNS=<list>  of PRECISION-RANKS (default: fp32-2 fp32-4 bf16-2 bf16-4)
#   TRIREME_SEED=<n>     of ways and moments (default: the time)
#   TRIREME_WAYS=<list>  of the functions below, without stop_ (default: all)
# With a directory that has a build: TRIREME_PROGRAM=build/tests/trireme TRIREME_SOURCE=$PWD
#   TRIREME_MPIEXEC=mpirun bash tests/slurm/stops.sh
cluster_options="PreemptType=preempt/partition_prio
PreemptMode=REQUEUE"
cluster_partitions="PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF"
. "$(dirname "$0")/lib.sh"
ulimit -c 0
stops=${TRIREME_STOPS:-60}
runs=${TRIREME_RUNS:-fp32-2 fp32-4 bf16-2 bf16-4}
seed=${TRIREME_SEED:-$(date +%s)}

# Ways to stop job $job of run $run. The job starts again by itself but for `cancel`.
stop_usr1() { scancel --signal=USR1 "$job"; }
stop_term() { scancel --signal=TERM "$job"; }
stop_int() { scancel --signal=INT "$job"; }
stop_usr1_batch() { scancel --batch --signal=USR1 "$job"; }
stop_term_batch() { scancel --batch --signal=TERM "$job"; }
stop_usr1_full() { scancel --full --signal=USR1 "$job"; }
stop_term_full() { scancel --full --signal=TERM "$job"; }  # srun itself kills the ranks
stop_usr1_usr2() { scancel --signal=USR2 "$job"; scancel --signal=USR1 "$job"; }
stop_usr1_twice() { scancel --signal=USR1 "$job"; scancel --signal=USR1 "$job"; }
stop_requeue() { scontrol requeue "$job"; }
stop_file() { touch "$work/$run/stop"; }
stop_preempt() {
  timeout 60 srun --partition=high --nodes=4 --exclusive --mpi=none true
}
stop_cancel() { scancel "$job"; }
ways=(${TRIREME_WAYS:-usr1 term int usr1_batch term_batch usr1_full term_full usr1_usr2
  usr1_twice requeue file preempt cancel})

# The program of the jobs trains for ever; once all stops are done it does three steps more.
cat >"$work/program" <<'END_OF_PROGRAM'
#!/bin/bash
[ ! -e "$RUN.last" ] ||
  set -- "$@" "run.steps=$(($(grep -c '"loss":' "$RUN/metrics.jsonl") + 3))"
exec "$TRIREME_PROGRAM" "$@"
END_OF_PROGRAM
chmod +x "$work/program"
export TRIREME_PROGRAM

words() { echo "$short precision.compute=${run%-*} checkpoint.every=1000000"; }
submit() {
  job=$(TRIREME="$work/program" RUN="$work/$run" sbatch --parsable --partition=low --nodes=2 \
    --ntasks-per-node=$((${run#*-} / 2)) --cpus-per-task=1 --signal=USR1@10 \
    --output="$work/$run.out" jobs/train.sbatch $deck run.directory="$work/$run" $(words) \
    run.steps=1000000)
}
starts() { cat "$work/$run.out" 2>/dev/null | grep -c '^trireme '; }
started() { [ "$(starts)" -ge "$1" ]; }
running_again() { started "$1" && grep -q '^step' <(tail -n 3 "$work/$run.out"); }
stopped() { ! in_state "$job" RUNNING || started $((before + 1)); }

# Starts that crashed, and starts that were killed. A rank that is killed after the checkpoint
# was written is neither: srun ends those that are slower to leave than the first.
bad_starts() {
  awk '
    function close_start() {
      if (bad) ++crashed
      else if (killed && !saved) ++gone
      bad = killed = saved = 0
    }
    /^trireme [0-9]/ { close_start() }
    /trireme: error:|Segmentation fault|Aborted|Bus error|free\(\)|malloc|corrupted|double free/ { bad = 1 }
    /: Killed/ { killed = 1 }
    /, with a checkpoint|^peak/ { saved = 1 }
    END { close_start(); print crashed + 0, gone + 0 }' "$work/$run.out"
}

# once: one stop of the run in a way and at a moment of chance.
once() {
  local way=${ways[RANDOM % ${#ways[@]}]} delay
  before=$(starts)
  # One in four comes while the program starts.
  if [ $((RANDOM % 4)) -gt 0 ]; then soon 90 running_again "$before"; fi
  delay=$((RANDOM % 2000))
  sleep $((delay / 1000)).$(printf %03d $((delay % 1000)))
  history+=" $way"
  "stop_$way" >"$work/way" 2>&1
  if soon 20 stopped >"$work/way"; then
    count[$way]=$((${count[$way]:-0} + 1))
    ((++done_stops))
  else
    ((++unheard))  # it came before there was anybody to hear it
  fi
  if [ "$way" = cancel ]; then
    soon 30 ended "$job" || ((++lost))
    submit
  fi
  if ! soon 60 started $((before + 1)); then
    # A job that does not come back is lost; its run goes on in another.
    ((++lost))
    history+=" (lost: $(state "$job"), status $(exit_status "$job"))"
    scancel "$job" 2>/dev/null
    soon 30 ended "$job"
    submit
    soon 60 started $((before + 1))
  fi
}

table=
for run in $runs; do
  declare -A count=()
  history= done_stops=0 unheard=0 lost=0
  RANDOM=$((seed + $(cksum <<<"$run" | cut -d' ' -f1)))
  submit
  soon 60 started 1
  while [ "$done_stops" -lt "$stops" ] && [ "$lost" -lt 5 ]; do once; done
  touch "$work/$run.last"
  stop_usr1
  check "$run: ends" soon 120 ended "$job"
  check "$run: completed" in_state "$job" COMPLETED
  cp "$work/$run.out" "$work/out"
  read -r crashed gone <<<"$(bad_starts)"
  check "$run: no start crashed" test "$crashed" = 0
  check "$run: none was killed but by srun" test "$gone" -le "${count[term_full]:-0}"
  check "$run: no job was lost" test "$lost" = 0
  ranks=${run#*-}
  run=$run-whole
  steps=$(steps "$work/${run%-whole}")
  timeout 600 "$MPIRUN" -n "$ranks" "$TRIREME" train $deck run.directory="$work/$run" $short \
    precision.compute="${run%%-*}" checkpoint.every=1000000 run.steps="$steps" >"$work/out" 2>&1
  run=${run%-whole}
  check "$run: as undisturbed" identical "$work/$run" "$work/$run-whole"
  table+=$(printf '%-8s %6s %6s %8s %7s %6s %8s %6s' "$run" "$done_stops" "$(starts)" "$unheard" \
    "$crashed" "$gone" "$lost" "$steps")$'\n'
  for way in "${!count[@]}"; do table+="         ${count[$way]} $way"$'\n'; done
  if [ "$failed" -gt "${failed_total:-0}" ]; then
    echo "again: TRIREME_SEED=$seed TRIREME_RUNS=$run TRIREME_STOPS=$stops" \
      "TRIREME_PROGRAM=$TRIREME_PROGRAM TRIREME_SOURCE=$SOURCE TRIREME_MPIEXEC=$MPIRUN" \
      "bash tests/slurm/stops.sh"
    echo "its ways:$history"
    grep -hE 'error|fault|Abort|free\(\)|corrupt|Killed' "$work/$run.out" | sort | uniq -c | head -n 20
  fi
  failed_total=$failed
done
echo "seed $seed"
printf '%-8s %6s %6s %8s %7s %6s %8s %6s\n%s' run stops starts unheard crashed killed lost steps "$table"
finish
