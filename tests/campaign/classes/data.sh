# Campaign: data that are damaged, change, or lead elsewhere.
# SPDX-License-Identifier: Apache-2.0
data_weight=140

data_begin() { mapfile -t tokens_kinds < <("$TOOL" hdf5 tokens_kinds); }

data_case() {
  local ranks words allowed='' directory=$case_folder/run
  pick 1 1 2 3; ranks=$picked
  words="precision.compute=fp32 run.steps=3 checkpoint.every=2 model.layers=1 $constant"
  limit=60
  case $(($1 % 4)) in
    0) data_tokens "$1" ;;
    1) data_damaged_tokens "$1" ;;
    2) data_paths ;;
    3) data_changes ;;
  esac
}

data_train() {
  run "$ranks" train "$deck" run.directory="$directory" $words "$@"
  well_behaved "${allowed:-0 65 66 74}"
}
data_tokens() {
  local kind=${tokens_kinds[$1 / 4 % ${#tokens_kinds[@]}]} file=$case_folder/tokens.h5
  mkfifo "$case_folder/fifo"
  "$TOOL" hdf5 tokens "$case_folder/other.h5" good x 1
  pick /etc/passwd "$case_folder/fifo" "$case_folder/other.h5"
  note "tokens: $kind, $picked"
  "$TOOL" hdf5 tokens "$file" "$kind" "$picked" "$seed$1" || skip "the file could not be made"
  data_train data.source=tokens "data.paths=[\"$file\"]" model.vocabulary=257
  case $kind in
    good | big_endian | few | packed) [ "$status" = 0 ] || [ "$kind" != good ] || wrong "good tokens are refused" ;;
    too_large | negative | beyond_32_bits) # found when they are read, which few steps may not
      [ "$status" = 0 ] || names tokens.h5 ;;
    *)
      [ "$status" != 0 ] || lost "trained on $kind"
      names tokens.h5
      ;;
  esac
}
data_damaged_tokens() {
  local file=$case_folder/tokens.h5
  "$TOOL" hdf5 tokens "$file" good x "$seed$1"
  pick flip flip_head flip_head flip_head cut cut_one append zero_page noise empty
  note "tokens: $picked"
  "$TOOL" damage "$file" "$picked" "$seed$1"
  data_train data.source=tokens "data.paths=[\"$file\"]" model.vocabulary=257
  [ "$status" = 0 ] || names tokens.h5
}
data_paths() {
  local paths=$case_folder/data
  mkdir -p "$paths/folder"
  : >"$paths/empty"
  head -c 20 LICENSE >"$paths/short"
  mkfifo "$paths/fifo"
  ln -s nowhere "$paths/dangling"
  ln -s loop "$paths/loop"
  ln -s /dev/zero "$paths/zero"
  printf '\x93NUMPY\x01\x00v\x00' >"$paths/numpy"
  pick empty short fifo dangling loop zero folder 'none-*.txt' missing numpy '' /dev/tty /proc/self/mem \
    $'new\nline' "$(printf 'x%.0s' {1..5000})"
  local path=$picked
  case $path in '' | /*) ;; *) path=$paths/$path ;; esac
  pick bytes bytes tokens
  note "$picked from $path"
  # TOML's basic strings want the newline as \n. A path with one is an error of the deck.
  case $path in *$'\n'*) allowed="64" ;; esac
  data_train data.source="$picked" "data.paths=[\"${path//$'\n'/\\n}\"]" model.vocabulary=257
  [ "$status" != 0 ] || lost "trained on $path"
  grep -aqF "data.paths" "$case_folder/out" || names "$(basename "${path:-data.paths}" | head -n 1 | cut -c1-30)"
}
# While it is read.
data_changes() {
  local file=$case_folder/text
  cat LICENSE LICENSE >"$file"
  words="precision.compute=fp32 checkpoint.every=2 $constant"
  limit=300  # where the change comes too late the run does all its steps
  launch "$ranks" train "$deck" run.directory="$directory" $words run.steps=800 \
    "data.paths=[\"$file\"]" checkpoint.every=500
  stepped "$directory" 3
  draw_pause 300
  pick truncate append replace remove rewrite touch
  note "$picked while it is read"
  case $picked in
    truncate) : >"$file" ;;
    append) echo more >>"$file" ;;
    replace) cp LICENSE "$file.new" && mv "$file.new" "$file" ;;
    remove) rm "$file" ;;
    rewrite) tr a-z b-za <LICENSE >"$file" ;;
    touch) touch "$file" ;;
  esac
  finished
  # Nothing was read after the change where it came at the very end.
  well_behaved "0 65 66 74"
  [ "$status" = 0 ] || names "$file"
}
