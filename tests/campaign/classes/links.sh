# Campaign: links, FIFOs, devices and folders in place of what a run writes.
# SPDX-License-Identifier: Apache-2.0
links_weight=160

links_case() {
  local names=(lock status.toml metrics.jsonl deck.toml flight checkpoints tensorboard
    gradients checkpoints/latest checkpoints/.latest.tmp checkpoints/.step-00000004.tmp
    checkpoints/step-00000004 flight/report.txt flight/position-00000)
  local name=${names[$1 % ${#names[@]}]} directory=$case_folder/run kind
  local words="precision.compute=fp32 run.steps=4 checkpoint.every=2 checkpoint.keep=2
    metrics.tensorboard=true debug.dump_gradients=[2] health.watchdog_seconds=60
    $constant"
  pick 1 1 2; local ranks=$picked
  reference "$ranks" $words
  pick file dangling folder fifo zero loop directory
  kind=$picked
  links_prepare "$kind"
  note "$name is a $kind"
  run "$ranks" train "$deck" run.directory="$directory" $words
  well_behaved "0 65 66 73 74"
  if [ "$status" = 0 ]; then
    as_reference "$directory"
  else
    names "$(basename "$name")"
  fi
  links_untouched
  draw 3
  [ "$drawn" = 0 ] && [ -e "$directory/metrics.jsonl" ] || return 0
  # Others read what lies there too.
  limit=30
  run 1 report "$directory" --output "$case_folder/report.md"
  well_behaved "0 65 66 73 74"
  links_untouched
}

# Another run began there, in half of the cases; on as many ranks, for the bits.
links_prepare() {
  local at=$directory/$name
  mkdir -p "$directory" "$case_folder/outside/position"
  draw 2
  if [ "$drawn" = 0 ]; then
    ranked "$ranks" "$TRIREME"
    "${ranked[@]}" train "$deck" run.directory="$directory" $words run.steps=2 \
      >/dev/null 2>&1 </dev/null
  fi
  rm -rf "$at"
  mkdir -p "$(dirname "$at")"
  echo precious >"$case_folder/outside/file"
  cp "$case_folder/outside/file" "$case_folder/outside/position-00000"
  cp "$case_folder/outside/file" "$case_folder/outside/position/step-00000002"
  ls -lR --time-style=+%s.%N "$case_folder/outside" >"$case_folder/before"
  case $1 in
    file) ln -s ../outside/file "$at.x" && rm "$at.x" && ln -s "$case_folder/outside/file" "$at" ;;
    dangling) ln -s "$case_folder/outside/new" "$at" ;;
    folder) ln -s "$case_folder/outside" "$at" ;;
    fifo) mkfifo "$at" ;;
    zero) ln -s /dev/zero "$at" ;;
    loop) ln -s "$(basename "$at")" "$at" ;;
    directory) mkdir "$at" && touch "$at/something" ;;
  esac
}
links_untouched() {
  ls -lR --time-style=+%s.%N "$case_folder/outside" >"$case_folder/after"
  diff "$case_folder/before" "$case_folder/after" >>"$case_folder/what" ||
    lost "the link's target was changed"
}
