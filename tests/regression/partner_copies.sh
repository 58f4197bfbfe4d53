#!/usr/bin/env bash
# A run that lost a node goes on from copies of its shards in the memory of the others.
# SPDX-License-Identifier: Apache-2.0
# Two folders stand for the memory of two nodes, each of which has half of the ranks. Nothing
# is on the disk to go on from unless a case says so.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
some="run.steps=9 optimizer.schedule.warmup=2 model.layers=1 parallel.sharding_strategy=FULL_SHARD"
copies='checkpoint.partner=2 checkpoint.partner_directory=$NODE_MEMORY/copies'

# nodes A B WORDS...: a run with A ranks on one node and B on the other.
nodes() {
  local a=$1 b=$2
  shift 2
  mkdir -p "$work/n1/copies" "$work/n2/copies"
  timeout 300 "$MPIRUN" -n "$a" env NODE_MEMORY="$work/n1" "$TRIREME" train $deck "$@" \
    : -n "$b" env NODE_MEMORY="$work/n2" "$TRIREME" train $deck "$@" >"$work/out" 2>&1 </dev/null
  status=$?
}
# killed NAME WORDS...: a run of four ranks whose rank 3 is killed before step 8; its copy of
# step 6 may be under way then, that of step 4 is whole.
killed() {
  local name=$1
  shift
  nodes 2 2 run.directory="$work/$name" $some $copies debug.fault=kill@8@3 "$@"
  check "$name: a rank is killed" test "$status" != 0
  check "$name: before step 8" test "$(field "$work/$name/metrics.jsonl" loss | wc -l)" -ge 6
}
from_copies() { grep -q "^resume  .*copies/trireme-.*(step [46]," "$work/out"; }
no_copies() { test -z "$(find "$work/n1/copies" "$work/n2/copies" -mindepth 1)"; }
shard() { ls "$work/$1/copies/"*/step-*/"shard-0000$2.h5" | tail -n 1; }

nodes 2 2 run.directory="$work/whole" $some parallel.tensor=2
check "undisturbed" test "$status" = 0
check "without the key nothing is copied" no_copies

# The second node goes, and one without any copies takes its place.
killed lost parallel.tensor=2
check "each shard is on both nodes" test -s "$(shard n1 3)" -a -s "$(shard n2 0)"
rm -rf "$work/n2"
nodes 2 2 run.directory="$work/lost" $some $copies parallel.tensor=2
check "a lost node" test "$status" = 0
check "a lost node: from copies" from_copies
check "a lost node: the same bits" identical lost whole
check "a lost node: the end removes the copies" no_copies

# A node that was away when the run came to a step again has copies of the first time. They
# are of another seed here, so that a mixture would be seen.
killed back parallel.tensor=2 run.seed=2
mv "$work/n2" "$work/away"
rm -rf "$work/n1" "$work/back"
killed back parallel.tensor=2
rm -rf "$work/n2"
mv "$work/away" "$work/n2"
rm -rf "$work"/n?/copies/*/step-00000006
nodes 2 2 run.directory="$work/back" $some $copies parallel.tensor=2
check "a node that comes back" test "$status" = 0
check "a node that comes back: from copies" from_copies
check "a node that comes back: of one start" identical back whole

# Nobody takes its place: other shards on fewer ranks.
killed fewer parallel.tensor=1
rm -rf "$work/n2"
nodes 2 1 run.directory="$work/fewer" $some $copies parallel.tensor=1
check "fewer ranks" test "$status" = 0
check "fewer ranks: from copies" from_copies
field "$work/fewer/metrics.jsonl" loss >"$work/losses"
field "$work/whole/metrics.jsonl" loss >"$work/expected"
check "fewer ranks: the same losses" close_values "$work/losses" "$work/expected" 1e-9

# Both copies of a shard are damaged, in all steps: back to the disk.
killed damaged parallel.tensor=2 checkpoint.every=3
rm -rf "$work/n2"
for file in "$work/n1/copies/"*/step-*/shard-00002.h5; do
  printf x | dd of="$file" bs=1 seek=2500 conv=notrunc status=none
done
rm -rf "$work/damaged/checkpoints/step-00000006"
nodes 2 2 run.directory="$work/damaged" $some $copies parallel.tensor=2 checkpoint.every=3
check "a damaged copy" test "$status" = 0
check "a damaged copy: said" grep -q 'warning: step [46]: .*shard-00002.h5: damaged.*passed over' "$work/out"
check "a damaged copy: from the disk" grep -q '^resume  .*damaged/checkpoints/step-00000003' "$work/out"
check "a damaged copy: the same bits" identical damaged whole

# A missing copy; a newer checkpoint on the disk; another run in the same directory.
killed missing parallel.tensor=2 checkpoint.every=7
rm -rf "$work/n2"
nodes 2 2 run.directory="$work/missing" $some $copies parallel.tensor=2
check "a newer checkpoint" grep -q '^resume  .*missing/checkpoints/step-00000007' "$work/out"
check "a newer checkpoint: the same bits" identical missing whole
# A checkpoint on the disk that is newer than the copies but damaged does not hide them.
killed hidden parallel.tensor=2 checkpoint.every=7
rm -rf "$work/n2"
printf x | dd of="$work/hidden/checkpoints/step-00000007/shard-00001.h5" bs=1 seek=2500 \
  conv=notrunc status=none
nodes 2 2 run.directory="$work/hidden" $some $copies parallel.tensor=2 checkpoint.every=7
check "damage on the disk" test "$status" = 0
check "damage on the disk: said" \
  grep -q 'warning: .*step-00000007/shard-00001.h5: damaged.*copies/trireme-.* will be taken' "$work/out"
check "damage on the disk: from copies" from_copies
check "damage on the disk: the same bits" identical hidden whole
killed gone parallel.tensor=2
rm "$work/n1/copies/"*/step-*/shard-00001.json "$work/n2/copies/"*/step-*/shard-00001.json
nodes 2 2 run.directory="$work/gone" $some $copies parallel.tensor=2
check "a missing copy: said" grep -q 'no node that is left has shard 1 of 4; passed over' "$work/out"
check "a missing copy: from the beginning" identical gone whole
killed removed parallel.tensor=2
rm -rf "$work/removed"
nodes 2 2 run.directory="$work/removed" $some $copies parallel.tensor=2 debug.fault=throw@start@0
check "another run in the directory fails first" test "$status" = 70
nodes 2 2 run.directory="$work/removed" $some $copies parallel.tensor=2 run.seed=2
check "another run in the directory: anew" test "$status" = 0 -a -z "$(grep '^resume' "$work/out")"

# Copies behind which nothing is to be done become a checkpoint before they are removed.
killed ended parallel.tensor=2
nodes 2 2 run.directory="$work/ended" ${some/steps=9/steps=4} $copies parallel.tensor=2
check "nothing to do" test "$status" = 0
check "nothing to do: from copies" from_copies
check "nothing to do: saved" grep -q 'step [46]  checkpoint in' "$work/out"
check "nothing to do: no copies are left" no_copies
nodes 2 2 run.directory="$work/ended" $some $copies parallel.tensor=2
check "nothing to do: goes on" grep -q '^resume  .*ended/checkpoints/step-0000000[46] ' "$work/out"
check "nothing to do: the same bits" identical ended whole

# A run that begins from another's checkpoint, and loses a node before it has one of its own.
nodes 2 2 run.directory="$work/other" ${some/steps=9/steps=3} parallel.tensor=2
other=checkpoint.resume=$work/other/checkpoints/step-00000003
nodes 2 2 run.directory="$work/unbroken" $some $other parallel.tensor=2
check "begun from another run, undisturbed" test "$status" = 0
nodes 2 2 run.directory="$work/begun" $some $copies $other parallel.tensor=2 debug.fault=kill@8@3
check "begun from another run: a rank is killed" test "$status" != 0 -a ! -e "$work/begun/checkpoints/latest"
rm -rf "$work/n2"
nodes 2 2 run.directory="$work/begun" $some $copies $other parallel.tensor=2
check "begun from another run" test "$status" = 0
check "begun from another run: from copies" from_copies
check "begun from another run: the same bits" identical begun unbroken

run 2 train $deck run.directory="$work/bad" $some checkpoint.partner=2 checkpoint.partner_directory=memory
check "a relative folder" expect 65 "checkpoint.partner_directory"
run 2 train $deck run.directory="$work/bad" $some checkpoint.partner=2 'checkpoint.partner_directory=$NO_SUCH'
check "a variable that is not set" expect 73 "NO_SUCH"
run 1 train $deck run.directory="$work/bad" $some checkpoint.partner_directory=/tmp
check "a folder without copies" expect 65 "checkpoint.partner = 0"
finish
