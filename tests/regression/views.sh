#!/usr/bin/env bash
# Views of whole tensors are made behind a checkpoint, which is whole without them.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
base="tests/regression/tiny.toml run.steps=4 precision.compute=fp32 model.layers=1
      checkpoint.every=2 checkpoint.keep=0"
names() { ls -A "$1" | tr '\n' ' '; }

# 1. A run that died behind the checkpoint of step 2.
run 2 train $base run.directory="$work/whole"
check "training" test "$status" = 0
last=$work/whole/checkpoints/step-00000004
check "the end waits for the views" test "$(names "$last")" = \
  "checkpoint.h5 checkpoint.h5.xxh3 index.bin manifest.json shard-00000.h5 shard-00001.h5 "
cp -r "$work/whole" "$work/run"
rm -r "$work/run/checkpoints/"{step-00000004,latest}
first=$work/run/checkpoints/step-00000002
cp "$first/checkpoint.h5" "$work/views.h5"
rm "$first"/checkpoint.h5*
touch "$first/.checkpoint.h5.tmp"

# 2. What reads a checkpoint needs no views.
run 2 inspect "$first"
check "inspect says that they are missing" grep -q 'no views of whole tensors' "$work/out"
run 2 inspect "$first" --verify
check "a checkpoint without views is not damaged" test "$status" = 0
check "and that is said" grep -q 'no views of whole tensors' "$work/out"
for command in "inspect $first --tensors" "generate $first --prompt ab --tokens 2" \
  "evaluate $first LICENSE" "convert $first $work/folder"; do
  run 2 $command
  check "$command" test "$status" = 0
done

# 3. The run goes on, to the same bits, and makes them.
run 2 train $base run.directory="$work/run"
check "a resume" test "$status" = 0
check "from step 2" grep -q 'resume .*step 2,' "$work/out"
check "has the same tensors" bash -c \
  "diff <('$TRIREME' inspect '$work/whole' --tensors | grep -E '^[0-9a-f]{32}') \
        <('$TRIREME' inspect '$work/run' --tensors | grep -E '^[0-9a-f]{32}')"
check "and makes the views" cmp "$first/checkpoint.h5" "$work/views.h5"
rm "$last"/checkpoint.h5*
run 2 train $base run.directory="$work/whole"
check "so does a start with nothing to do" test -e "$last/checkpoint.h5"
check "and leaves nothing else" test "$(names "$first")" = "$(names "$last")"

# 4. Damage of the views is seen by who looks for it, and mended.
printf x | dd of="$first/checkpoint.h5" bs=1 seek=999 conv=notrunc status=none
run 2 inspect "$first" --verify
check "damaged views are seen" expect 65 'checkpoint.h5: damaged'
run 2 train $base run.directory="$work/new" checkpoint.resume="$first"
check "and in nobody's way" test "$status" = 0
run 2 inspect "$first" --make-views
check "and made again" cmp "$first/checkpoint.h5" "$work/views.h5"
run 1 inspect "$first" --make-views
check "once" grep -q 'stand already' "$work/out"
run 2 inspect "$first" --verify
check "as they were" test "$status" = 0
if command -v xxhsum >/dev/null; then
  check "xxhsum says so, too" bash -c "cd '$first' && xxhsum -c checkpoint.h5.xxh3"
fi
run 1 inspect README.md --make-views
check "what has no tensors has no views" expect 66 'no checkpoint'
finish
