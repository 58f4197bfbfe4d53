#!/usr/bin/env bash
# A job on four nodes loses one and goes on in its allocation, from copies in memory.
# SPDX-License-Identifier: Apache-2.0
# Twelve ranks become nine on the three nodes that are left, whose own copies and partners'
# hold every shard; no checkpoint was on the disk. Its losses are those of the undisturbed
# run (EQ64).
. "$(dirname "$0")/lib.sh"
shape="model.hidden=48 model.heads=6 model.kv_heads=3 parallel.tensor=3 run.steps=14
       parallel.sharding_strategy=FULL_SHARD"

# What a node has of its own: memory that goes with it. Before step 8 the job waits for the loss.
cat >"$work/program" <<'END_OF_PROGRAM'
#!/bin/bash
export NODE_MEMORY=$NODES/memory-$SLURMD_NODENAME
mkdir -p "$NODE_MEMORY"
[ -e "$NODES/lost" ] || set -- "$@" debug.fault=hang@8@0
exec "$TRIREME_PROGRAM" "$@"
END_OF_PROGRAM
chmod +x "$work/program"
export TRIREME_PROGRAM NODES=$cluster

# lose NODE: its daemon, all that runs on it and its memory are gone in a moment.
lose() {
  touch "$cluster/lost"
  local process daemons=("${slurmd_pid[$1]}") ranks=()
  for process in /proc/[0-9]*; do
    [ "$(tr '\0' '\n' <"$process/environ" 2>/dev/null |  # of this cluster: others may run beside it
      grep -cxe "SLURMD_NODENAME=$1" -e "SLURM_CONF=$cluster/slurm.conf")" = 2 ] &&
      ranks+=("${process#/proc/}") && daemons+=("$(ps -o ppid= -p "${process#/proc/}" | tr -d ' ')")
  done 2>/dev/null
  kill -9 $(printf '%s\n' "${daemons[@]}" "${ranks[@]}" | grep -vx '[01]' | sort -u)
  rm -rf "$cluster/memory-$1"
}

run 4 train $deck run.directory="$work/whole" $shape parallel.tensor=1
check "undisturbed" test "$status" = 0
job=$(TRIREME="$work/program" sbatch --parsable --nodes=4 --ntasks-per-node=3 --cpus-per-task=1 \
  --output="$work/lost.out" jobs/train.sbatch $deck run.directory="$work/lost" $shape \
  checkpoint.partner=2 'checkpoint.partner_directory=$NODE_MEMORY')
check "runs to step 7" soon 120 has_steps "$work/lost" 7
lose n4
check "a lost node: the job ends" soon 240 ended "$job"
cp "$work/lost.out" "$work/out"
check "a lost node: done" in_state "$job" COMPLETED
check "in its allocation" test "$(restarts "$job")" = 0
check "on the nodes that are left" grep -q 'start [0-9]* after status .* on n1,n2,n3$' "$work/out"
check "nine ranks" grep -q '  9 ranks, ' "$work/out"
check "from copies" grep -q '^resume  .*memory-n1/trireme-.*(step [46],' "$work/out"
check "the end removes the copies" test -z "$(find "$cluster"/memory-n[123] -mindepth 1)"
field "$work/lost/metrics.jsonl" loss >"$work/losses"
field "$work/whole/metrics.jsonl" loss >"$work/expected"
check "EQ64: 14 losses" close_values "$work/losses" "$work/expected" 1e-9
finish
