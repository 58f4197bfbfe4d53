# Campaign: file calls that fail, are cut short or interrupted; limits on files.
# SPDX-License-Identifier: Apache-2.0
io_weight=300

io_case() {
  case $(($1 % 10)) in
    7) io_file_size ;;
    8) io_open_files ;;
    9) io_full_disk ;;
    *) io_call "$1" ;;
  esac
}

# ENOSPC 28, EIO 5, EDQUOT 122, EINTR 4, EROFS 30, EACCES 13.
io_call() {
  local ranks rank compute async words directory=$case_folder/run folder kind error at calls
  pick 1 1 2 2 4; ranks=$picked
  pick fp32 fp32 bf16 fp64; compute=$picked
  pick false true; async=$picked
  words="precision.compute=$compute run.steps=4 checkpoint.every=2 checkpoint.keep=2 model.layers=1
    checkpoint.async=$async metrics.tensorboard=true"
  reference "$ranks" $words
  draw "$ranks"; rank=$drawn
  pick "$directory/checkpoints" "$directory"; folder=$picked
  count_calls "$folder" "$ranks" "$rank" $words
  draw "$calls"; at=$((drawn + 1))
  pick 28 28 5 122 4 30 13 short short; error=$picked
  pick 1 2; kind=$picked
  [ "$error" = 4 ] && kind=1
  [ "$error" = short ] && kind=3 error=0
  note "errno $error, kind $kind, call $at of $calls below ${folder#"$case_folder/"}, rank $rank"
  faulty "$folder" "$rank" $kind $at $error
  run "$ranks" train "$deck" run.directory="$directory" $words
  faultless
  if [ $kind = 3 ]; then
    well_behaved 0
  else
    well_behaved "0 73 74"
  fi
  [ "$status" = 0 ] || names "$directory"
  newest_counts "$directory"
  goes_on "$ranks" "$directory" $words
}

io_file_size() {
  local words="precision.compute=fp32 run.steps=4 checkpoint.every=2 checkpoint.keep=2" blocks
  reference 1 $words
  draw 400; blocks=$drawn
  note "file size limit of $blocks KiB"
  wrapper=(bash -c "ulimit -f $blocks; exec \"\$@\"" limited)
  run 1 train "$deck" run.directory="$case_folder/run" $words
  wrapper=()
  well_behaved "0 73 74"
  newest_counts "$case_folder/run"
  goes_on 1 "$case_folder/run" $words
}

io_open_files() {
  local words="precision.compute=fp32 run.steps=2 checkpoint.every=2 $constant" ranks files
  pick 1 2; ranks=$picked
  reference "$ranks" $words
  draw 60; files=$((drawn + 8))
  note "limit of $files open files"
  wrapper=(bash -c "ulimit -n $files; exec \"\$@\"" limited)
  run "$ranks" train "$deck" run.directory="$case_folder/run" $words
  wrapper=()
  # What the loader says when not even libraries can be opened is not the program's.
  if grep -aq 'error while loading shared libraries' "$case_folder/out"; then return; fi
  well_behaved "0 78"
  goes_on "$ranks" "$case_folder/run" $words
}

io_full_disk() {
  local words="precision.compute=fp32 run.steps=12 checkpoint.every=2 checkpoint.keep=0" size
  local directory=$case_folder/disk/run
  reference 2 $words
  mkdir "$case_folder/disk"
  draw 1800; size=$((drawn + 100))
  mount -t tmpfs -o size=${size}k tmpfs "$case_folder/disk" 2>/dev/null ||
    skip "no right to mount a small disk"
  trap 'umount -l "$case_folder/disk"' EXIT
  note "a disk of $size KiB"
  run 2 train "$deck" run.directory="$directory" $words
  well_behaved "0 73 74"
  [ "$status" = 0 ] || names "$case_folder/disk"
  newest_counts "$directory"
  mount -o remount,size=100m "$case_folder/disk" || skip "the disk cannot be made larger"
  goes_on 2 "$directory" $words
}
