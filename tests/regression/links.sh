#!/usr/bin/env bash
# Names that a run writes, borne by links, FIFOs, devices and folders, are refused.
# SPDX-License-Identifier: Apache-2.0
# One message names it, with status 73, at once; what a link leads to stays as it is, and
# nothing is made elsewhere. Files and folders of runs have the modes that the umask says.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
short="run.steps=2 optimizer.schedule.warmup=0 precision.compute=fp32 model.layers=1 checkpoint.every=1
       metrics.tensorboard=true debug.dump_gradients=[1] health.watchdog_seconds=60"
away=$work/away  # where links lead

# A run that was stopped after its first step, to go on from.
run 1 train $deck run.directory="$work/whole" $short run.steps=1
check "a run to go on from" test "$status" = 0
mkdir -p "$work/whole/flight/before"

# All that lies in a folder but status.toml, which tells of the refused start.
listing() {
  (
    cd "$1" || exit 1
    find . -mindepth 1 ! -path ./status.toml -printf '%p %y %l %m %s\n' | sort
    find . -type f ! -path ./status.toml -exec cat {} +
  )
}

# plant KIND PATH: what stands in the way there.
plant() {
  rm -rf "$2"
  mkdir -p "$(dirname "$2")"
  case $1 in
    file) ln -s "$away/file" "$2" ;;
    folder) ln -s "$away/folder" "$2" ;;
    nowhere) ln -s "$away/nowhere" "$2" ;;
    zero) ln -s /dev/zero "$2" ;;
    relative) ln -s ../away/file "$2" ;;
    fifo) mkfifo "$2" ;;
    directory) mkdir "$2" ;;
    plain) echo plain >"$2" ;;
  esac
}

# refused RANKS NAME KIND WORDS [ARGS...]
refused() {
  local ranks=$1 name=$2 kind=$3 words=$4
  shift 4
  rm -rf "$work/run" "$away"
  mkdir -p "$away/folder/sub"
  echo precious >"$away/file"
  echo precious >"$away/folder/position-00000-1"
  echo precious >"$away/folder/sub/file"
  cp -a "$work/whole" "$work/run"
  plant "$kind" "$work/run/$name"
  listing "$away" >"$work/before"
  listing "$work/run" >"$work/run-before"
  run "$ranks" train $deck run.directory="$work/run" $short "$@"
  listing "$away" >"$work/after"
  listing "$work/run" >"$work/run-after"
  check "$ranks ranks, $name as $kind: named" expect 73 "$work/run/$name: $words"
  check "$ranks ranks, $name as $kind: untouched" cmp "$work/before" "$work/after"
  check "$ranks ranks, $name as $kind: nothing else done" \
    cmp "$work/run-before" "$work/run-after"
}

link="is a symbolic link"
i=0
kinds=(file folder nowhere zero relative)
# Each name once with one kind of link in turn; the unit tests have all kinds.
for name in lock status.toml deck.toml metrics.jsonl stop save checkpoints flight \
  reference.h5 reference.h5.tmp tensorboard gradients flight/position-00000-17 flight/recorder-00000.jsonl \
  flight/report.txt flight/before gradients/step-00000001.h5 \
  checkpoints/.step-00000002.tmp checkpoints/.trash-step-00000001; do
  refused 1 $name "${kinds[i++ % ${#kinds[@]}]}" "$link"
done
refused 2 lock file "$link"
refused 2 metrics.jsonl nowhere "$link"
refused 2 flight folder "$link"
refused 2 checkpoints folder "$link"
refused 2 checkpoints/.step-00000002.tmp folder "$link"
for name in lock status.toml metrics.jsonl deck.toml stop; do
  refused 1 $name fifo "is a FIFO"
done
refused 2 lock fifo "is a FIFO"
for name in metrics.jsonl lock save; do refused 1 $name directory "is a directory"; done
for name in checkpoints flight; do refused 1 $name plain "is a file"; done

# Found later than at the start: a link where a checkpoint is to stand.
rm -rf "$work/run"
cp -a "$work/whole" "$work/run"
ln -s "$away/folder" "$work/run/checkpoints/step-00000002"
run 2 train $deck run.directory="$work/run" $short
check "a checkpoint's name as a link" expect 73 "step-00000002: $link"
check "a checkpoint's name as a link: untouched" cmp "$work/before" <(listing "$away")

# Links that are ours, and links to the run itself, are no obstacle.
rm -rf "$work/run"
cp -a "$work/whole" "$work/run"
ln -s run "$work/alias"
ln -s step-00000009 "$work/run/checkpoints/.latest.tmp"
run 1 train $deck run.directory="$work/alias" $short
check "run.directory as a link" test "$status" = 0
check "latest" test "$(readlink "$work/run/checkpoints/latest")" = step-00000002
check "a half-made latest is gone" test ! -e "$work/run/checkpoints/.latest.tmp" -a \
  ! -L "$work/run/checkpoints/.latest.tmp"

# Reports and sweeps of a directory with FIFOs end, and write over no link.
for name in status.toml metrics.jsonl lock; do
  plant fifo "$work/run/$name"
  run 1 report "$work/run"
  check "report with $name as a FIFO ends" test "$status" != 124
  rm "$work/run/$name"
done
cp "$work/whole/metrics.jsonl" "$work/run/"
plant file "$work/run/report.html"
run 1 report "$work/run"
check "report.html as a link" expect 73 "report.html: is a link"
run 1 sweep <(echo nothing) --grid optimizer.learning_rate=1,2 --directory "$work/sweep"
check "a pipe as the deck" test "$status" != 0 -a "$status" -lt 124
run 1 sweep $deck --list <(echo "optimizer.learning_rate=1e-3") --directory "$work/sweep"
check "a pipe as the list of points" test "$status" = 0

# Modes: those that the umask leaves, and no file is executable.
for mask in 077 027 002; do
  rm -rf "$work/run" "$work/sweep"
  (
    umask $mask
    run 2 train $deck run.directory="$work/run" $short
    exit $status
  )
  check "umask $mask: a run" test $? = 0
  (umask $mask && run 1 sweep $deck --grid optimizer.learning_rate=1e-3 \
    --directory "$work/sweep")
  wanted_file=$(printf '%o' $((0666 & ~0$mask)))
  wanted_folder=$(printf '%o' $((0777 & ~0$mask)))
  find "$work/run" "$work/sweep" \( -type f ! -perm "$wanted_file" \) -o \
    \( -type d ! -perm "$wanted_folder" \) >"$work/modes"
  check "umask $mask: modes" cmp /dev/null "$work/modes"
done

finish
