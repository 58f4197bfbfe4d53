# Campaign: mutated decks.
# SPDX-License-Identifier: Apache-2.0
# `train --check` takes them or says in one message what is wrong; what it takes, runs.
decks_weight=340

decks_case() {
  local source=$deck
  local file=$case_folder/deck.toml ranks
  # Most are of the tiny deck, which can be run.
  draw 4
  if [ "$drawn" = 0 ]; then
    pick "$SOURCE"/inputs/*.toml; source=$picked
  fi
  "$TOOL" deck "$source" "$seed$1" >"$file"
  pick 1 1 2 3 4 8; ranks=$picked
  note "a deck of $(basename "$source") for $ranks ranks: $(diff "$source" "$file" | grep -a '^>' | cut -c1-160 | head -n 3)"
  limit=60
  # No memory beyond what a login node would give: a deck is not to take it.
  wrapper=(bash -c 'ulimit -v 8000000; exec "$@"' limited)
  run 1 train "$file" --check --ranks "$ranks"
  wrapper=()
  well_behaved "0 64 65 66 78"
  [ -z "$(find "$case_folder" -newer "$file" -name '*.jsonl')" ] || wrong "--check has written"
  if [ "$status" != 0 ]; then
    grep -aqE "$(basename "$file"):[0-9]+:[0-9]+|[a-z_]+\.[a-z_.]+|\[[a-z_.]+\]" "$case_folder/out" ||
      wrong "status $status, and the message names neither a place nor a key"
    return
  fi
  [ "$source" = "$deck" ] || return 0
  decks_small || return 0
  note "is run for a step"
  decks_run
}

# As --check has said: little memory and little work.
decks_small() {
  grep -aqE '^memory .* total [0-9.]+ (B|KiB|MiB) ' "$case_folder/out" &&
    grep -aqE '^work +[0-9.]+ (FLOP|kFLOP|MFLOP) a step' "$case_folder/out" &&
    [ "$ranks" -le 4 ]
}
decks_run() {
  mkdir -p "$case_folder/run" && touch "$case_folder/run/stop"
  limit=120
  run "$ranks" train "$file" run.directory="$case_folder/run"
  well_behaved "0 65 66 70 71 73 74 75 78 80 81 82"
  case $status in
    65 | 66) # What lies outside of the deck is looked at when it runs.
      grep -aqE "data\.|vocabulary|checkpoint|resume|LICENSE|tokens|samples" "$case_folder/out" ||
        wrong "status $status of a deck that --check takes" ;;
    70 | 71 | 81 | 82) # only where a fault was asked for
      grep -aq fault "$file" || wrong "status $status of a deck that --check takes" ;;
  esac
}
