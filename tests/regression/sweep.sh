#!/usr/bin/env bash
# A parameter sweep from its grid to its best point, without a batch system.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
sweep=$work/sweep
short="run.steps=3 optimizer.schedule.warmup=0"
grids=(--grid 'debug.fault="",nan@2@0' --grid optimizer.learning_rate=1e-3,3e-3,1e-2
  --grid run.seed=1,2)

# Mistakes in any point are found before anything is written, all at once.
run 1 sweep $deck --directory "$sweep" --grid optimizer.learning_rat=1e-3,2e-3
check "an unknown key" expect 64 "did you mean 'optimizer.learning_rate'"
run 1 sweep $deck --directory "$sweep" --grid model.heads=4,5,3 --grid run.seed=1,2
check "a rule broken in some points" expect 65 'point 2,3: '
check "and in others" grep -q 'point 4,5: ' "$work/out"
run 1 sweep $deck --directory "$sweep" --grid optimizer.learning_rate=1e-3,0.001
check "the same run twice" expect 64 'point 1: is the same run as point 0'
run 1 sweep $deck --directory "$sweep" run.seed=4 --grid run.seed=1,2
check "a key given for all and for each" expect 64 'the sweep itself gives run.seed'
run 1 sweep $deck --directory "$sweep"
check "no grid" expect 64 'needs --grid'
for grid in run.seed=1,2, run.seed=,1 run.seed=1,,2 run.seed=, run.seed= 'run.seed=1, '; do
  run 1 sweep $deck --directory "$sweep" --grid "$grid"
  check "a value is empty: $grid" expect 64 'a value is empty'
done
run 2 sweep $deck --directory "$sweep" --grid run.seed=1,2,
check "on two ranks" expect 64 'a value is empty'
for grid in =1,2 ' =1' run.seed ,; do
  run 1 sweep $deck --directory "$sweep" --grid "$grid"
  check "no key: $grid" expect 64 'is no section.key=value'
done
run 1 sweep $deck --directory "$sweep" --grid ''
check "no grid" expect 64 'the value is empty'
run 1 sweep $deck --directory "$sweep" --grid run.seed=1,2 --grid 'run.seed =3'
check "a key twice" expect 64 'given twice'
run 1 sweep $deck --directory "$sweep" --grid "run.seed=$(seq -s, 400)" \
  --grid "model.layers=$(seq -s, 400)" --grid "model.heads=$(seq -s, 400)"
check "far too many points" expect 64 'more than 100000 points'
check "nothing was written" test ! -e "$sweep"

# The sweep's copy of a deck needs no file beside it.
printf 'include = "%s/%s"\n' "$PWD" $deck >"$work/includes.toml"
run 1 sweep "$work/includes.toml" $short --directory "$work/included" --grid run.seed=1,2
check "a deck that includes another" test "$status" = 0
rm "$work/includes.toml"
check "the sweep's deck includes none" test "$(grep -c include "$work/included/deck.toml")" = 0
run 1 train --manifest "$work/included/sweep.toml" --index 1 --check
check "a point of it" test "$status" = 0

run 1 sweep $deck $short --directory "$sweep" "${grids[@]}"
check "12 points" grep -q '12 points in' "$work/out"
check "and how to submit them" grep -q "sbatch --array=0-11 $sweep/sweep.sbatch" "$work/out"
check "a script that bash can read" bash -n "$sweep/sweep.sbatch"
check "for the whole array" grep -q '^#SBATCH --array=0-11$' "$sweep/sweep.sbatch"
# The script, with stand-ins for Slurm's commands: which point runs, and what 75 leads to.
mkdir "$work/bin"
printf '#!/bin/sh\necho "$@" >%s/srun\nexit 75\n' "$work" >"$work/bin/srun"
cat >"$work/bin/scontrol" <<'END'
#!/bin/sh
case "$*" in
  *show*) echo "JobId=9 ArrayJobId=7 ArrayTaskId=3 JobName=sweep JobState=RUNNING Reason=None" ;;
  *) echo "$@" >"$work/scontrol" ;;
esac
END
chmod +x "$work/bin/"*
(cd "$work" && PATH=$work/bin:$PATH SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3 SLURM_JOB_ID=9 work=$work \
  exec bash "$sweep/sweep.sbatch" 8) 2>"$work/out"
check "the script's status" test $? = 75
check "it runs the point at an offset" grep -q -- "--manifest $sweep/sweep.toml --index 11" \
  "$work/srun"
check "and requeues its task" grep -qx 'requeue 7_3' "$work/scontrol"
check "and writes the log of its point" test -e "$sweep/slurm-11.out"
rm "$sweep/slurm-11.out"
# What a script asks of its point: the deck alone may lack what the grid gives.
sed '/^steps/d' $deck >"$work/open.toml"
run 1 sweep "$work/open.toml" --directory "$work/open" --grid run.steps=8,9 \
  --grid run.spare_nodes=0,1
check "a deck that lacks what is swept" test "$status" = 0
run 1 inspect --manifest "$work/open/sweep.toml" --index 3 --value run.spare_nodes
check "a point says its own" grep -qx 1 "$work/out"
run 1 inspect --manifest "$work/open/sweep.toml" --index 4 --value run.spare_nodes
check "a point that there is not" expect 64 'index'
run 1 inspect --manifest "$work/open/sweep.toml" --value run.spare_nodes
check "no index" expect 64 'goes with --index'
cp "$sweep/sweep.toml" "$work/before"
run 1 sweep $deck $short --directory "$sweep" "${grids[@]}"
check "the same sweep again changes nothing" cmp "$sweep/sweep.toml" "$work/before"
run 1 sweep $deck $short batch.micro=2 --directory "$sweep" "${grids[@]}"
check "another one is refused" expect 73 'belongs to another sweep'
check "and leaves the first" cmp "$sweep/sweep.toml" "$work/before"

run 1 sweep --status "$sweep/sweep.toml"
check "all points wait" grep -q '^12 points: 0 done, 12 waiting$' "$work/out"
run 1 train --manifest "$sweep/sweep.toml" --index 12
check "an index too high" expect 64 'a whole number from 0 to 11'
run 1 train $deck --manifest "$sweep/sweep.toml" --index 1
check "a deck besides" expect 64 'takes no deck'
run 1 train --manifest "$sweep/sweep.toml"
check "no index" expect 64 'go together'
run 1 train --manifest "$sweep/sweep.toml" --index 7 --check
check "a point is checked" grep -q 'the deck is good' "$work/out"
check "without writing" test ! -e "$sweep/point-0007"

# A task that trains; one that diverges; one whose directory another process holds.
run 1 train --manifest "$sweep/sweep.toml" --index 5
check "a point trains" test "$status" = 0
run 1 train $deck $short optimizer.learning_rate=1e-2 run.seed=2 \
  run.directory="$work/alone"
field "$work/alone/metrics.jsonl" loss >"$work/a"
field "$sweep/point-0005/metrics.jsonl" loss >"$work/b"
check "as the same deck alone, to the bit" cmp "$work/a" "$work/b"
run 2 train --manifest "$sweep/sweep.toml" --index 0
check "another, on two ranks" test "$status" = 0
run 1 train --manifest "$sweep/sweep.toml" --index 8
check "a point diverges" expect 80 'not finite'

mkdir -p "$sweep/point-0003"
exec 9>"$sweep/point-0003/lock"
flock 9
run 2 train --manifest "$sweep/sweep.toml" --index 3
check "a second task on a point" expect 73 'is held by'
check "writes nothing" test ! -e "$sweep/point-0003/metrics.jsonl"
run 1 sweep --status "$sweep/sweep.toml"
cp "$work/out" "$work/table"
check "what is held is running" grep -q 'running .* 3 ' "$work/table"
check "states are counted" grep -q '^12 points: 2 done, 8 waiting, 1 running, 1 failed$' "$work/table"
check "a failure is explained" grep -q '^8: status 80: ' "$work/table"
check "the best is marked" grep -qE '^\*  done .* (0|5) +3/3' "$work/table"
check "and named" grep -qE '^best: point (0|5) in ' "$work/table"
run 1 sweep --resubmit "$sweep/sweep.toml"
check "neither done nor running nor diverged" grep -qx \
  "sbatch --array=1,2,4,6,7,9-11 $sweep/sweep.sbatch" "$work/out"
check "which is said" grep -q '^# 1 point diverged' "$work/out"
run 1 sweep --resubmit "$sweep/sweep.toml" --all
check "--all" grep -qx "sbatch --array=1,2,4,6-11 $sweep/sweep.sbatch" "$work/out"
run 1 sweep --status "$sweep/sweep.toml" --csv
check "--csv has a line a point" test "$(wc -l <"$work/out")" = 13
check "with what diverged" grep -q '^8,".*",failed,[0-9]*,3,.*"status 80: ' "$work/out"
run 1 sweep --status "$sweep/sweep.toml" --json
if command -v python3 >/dev/null; then
  check "--json is JSON" python3 -c 'import json, sys; points = json.load(open(sys.argv[1]))
assert len(points) == 12 and points[3]["state"] == "running" and points[3]["loss"] is None
assert sum(point["best"] for point in points) == 1' "$work/out"
fi
run 1 sweep --status "$sweep/sweep.toml" --json --csv
check "not both" expect 64 exclude
run 1 sweep --status "$sweep/sweep.toml" --all
check "--all belongs to --resubmit" expect 64 resubmit
exec 9>&-

# The tree may move; its deck may not change.
mv "$sweep" "$work/moved"
run 1 train --manifest "$work/moved/sweep.toml" --index 3
check "a moved sweep goes on" test "$status" = 0
run 1 sweep --status "$work/moved/sweep.toml"
check "and sees what was done" grep -q ': 3 done' "$work/out"
echo '# edited' >>"$work/moved/deck.toml"
run 1 train --manifest "$work/moved/sweep.toml" --index 4
check "an edited deck is refused" expect 65 'is not the deck that'

printf '%s\n' '# pairs' 'model.layers=1 optimizer.clip=0.5' 'model.layers=2 # and its clip' \
  >"$work/points"
run 2 sweep $deck --directory "$work/list" --list "$work/points" --grid run.seed=1,2
check "a list times a grid" grep -q '4 points in' "$work/out"

# Keys that a deck must have may come from overrides of all points, from those of each, or
# from the model of model.from.
sed '/^\(steps\|layers\|hidden\|heads\) =/d' $deck >"$work/short.toml"
run 1 train $deck run.steps=1 optimizer.schedule.warmup=0 run.directory="$work/model"
check "a model to start from" test "$status" = 0
run 1 sweep "$work/short.toml" --directory "$work/from" optimizer.schedule.warmup=0 \
  model.from="$work/model" --grid run.steps=1,2 --grid optimizer.learning_rate=1e-3,2e-3
check "keys from elsewhere" grep -q '4 points in' "$work/out"
check "digests tell the points apart" \
  test "$(grep '^digest' "$work/from/sweep.toml" | sort -u | wc -l)" = 4
run 1 train --manifest "$work/from/sweep.toml" --index 3 --check
check "such a point is good" grep -q 'the deck is good' "$work/out"
finish
