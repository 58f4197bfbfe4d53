# Campaign: damaged, mixed up, edited and hostile checkpoints.
# SPDX-License-Identifier: Apache-2.0
# Damage is found, with status 65 and the file's name, or is harmless: the tensors are
# those that were saved.
checkpoints_weight=340

checkpoints_begin() {
  mapfile -t manifest_kinds < <("$TOOL" manifest kinds)
  mapfile -t spoil_kinds < <("$TOOL" hdf5 spoil_kinds)
}

checkpoints_case() {
  local ranks compute words folder file files number=$1
  damaged=''
  pick 1 2 4; ranks=$picked
  pick fp32 bf16 fp64; compute=$picked
  words="precision.compute=$compute run.steps=6 checkpoint.every=2 checkpoint.keep=2 model.layers=1
    $constant"
  reference "$ranks" $words
  copy_run "$case_folder/run"
  folder=$case_folder/run/checkpoints/step-00000006
  mapfile -t files < <(cd "$folder" && ls)
  pick "${files[@]}"; file=$picked
  case $((number % 4)) in
    0) checkpoints_damage ;;
    1) checkpoints_edit ;;
    2) checkpoints_mix ;;
    3) checkpoints_hostile ;;
  esac
  limit=60
  checkpoints_judge
}

checkpoints_damage() {
  pick flip flip flip flip_head cut cut_one append zero_page noise empty
  "$TOOL" damage "$folder/$file" "$picked" "$seed$number"
  damaged=$file
  note "$picked in $file"
}
checkpoints_edit() {
  local kind=${manifest_kinds[number / 4 % ${#manifest_kinds[@]}]}
  note "manifest signed anew: $("$TOOL" manifest "$folder/manifest.json" "$kind" "$seed$number" 2>&1)"
  damaged=manifest.json
}
# Files of other checkpoints, or none, or what is no file.
checkpoints_mix() {
  local older=$case_folder/run/checkpoints/step-00000004
  pick missing older swapped extra_shard extra_file link fifo device directory renamed no_manifest
  note "$picked: $file"
  damaged=$file
  case $picked in
    missing) rm "$folder/$file" ;;
    older) cp "$older/$file" "$folder/$file" ;;
    swapped) mv "$folder/$file" "$folder/x" && cp "$folder/${files[0]}" "$folder/$file" && rm "$folder/x" ;;
    extra_shard) cp "$folder/$file" "$folder/shard-00099.h5"; damaged=shard-00099 ;;
    extra_file) echo text >"$folder/notes.txt" ;;
    link) mv "$folder/$file" "$case_folder/elsewhere" && ln -s "$case_folder/elsewhere" "$folder/$file" ;;
    fifo) rm "$folder/$file" && mkfifo "$folder/$file" ;;
    device) rm "$folder/$file" && ln -s /dev/zero "$folder/$file" ;;
    directory) rm "$folder/$file" && mkdir "$folder/$file" ;;
    renamed) mv "$folder" "${folder%6}7" && folder=${folder%6}7 # which the run will write anew
      ln -sfn step-00000007 "$case_folder/run/checkpoints/latest" ;;
    no_manifest) rm "$folder/manifest.json"; damaged=manifest.json ;;
  esac
}
# The digests are right, and what the files hold leads elsewhere.
checkpoints_hostile() {
  local kind=${spoil_kinds[number / 4 % ${#spoil_kinds[@]}]} other
  pick /etc/passwd "$case_folder/fifo" "$case_folder/run/checkpoints/step-00000004/checkpoint.h5"
  other=$picked
  mkfifo "$case_folder/fifo"
  case $file in *.h5) ;; *) file=checkpoint.h5 ;; esac
  note "$kind in $file to $other"
  "$TOOL" hdf5 spoil "$folder/$file" "$kind" "$other" "$seed$number" &&
    "$TOOL" manifest adopt "$folder" "$file" || skip "the file could not be made"
  damaged=$file
}

# refused: the message says which file.
refused() { names "step-0000000"; }
checkpoints_judge() {
  local readers
  pick 1 1 2; readers=$picked
  case $((number / 8 % 5)) in
    0)
      note "inspect --verify"
      run "$readers" inspect "$folder" --verify
      well_behaved "0 65 66"
      [ "$status" = 0 ] || refused
      run 1 inspect "$folder" --tensors
      well_behaved "0 65 66"
      [ "$status" != 0 ] || tensors_as_reference "$folder"
      ;;
    1) # It goes on from the one before, or from this one: both lead to the same end.
      note "train, by itself"
      goes_on_past "$ranks"
      ;;
    2)
      note "train from it"
      run "$readers" train "$deck" run.directory="$case_folder/new" $words run.steps=6 \
        checkpoint.resume="$folder"
      well_behaved "0 65 66"
      [ "$status" = 0 ] || refused
      [ "$status" != 0 ] || [ ! -d "$case_folder/new/checkpoints" ] ||
        tensors_as_reference "$case_folder/new"
      ;;
    3)
      note "generate"
      "$TRIREME" generate "$made/run" --prompt x --tokens 20 --temperature 0 \
        >"$case_folder/good" 2>/dev/null </dev/null
      run "$readers" generate "$folder" --prompt x --tokens 20 --temperature 0
      well_behaved "0 65 66"
      if [ "$status" = 0 ]; then
        cmp -s "$case_folder/good" "$case_folder/out" || lost "another text is generated"
      else
        refused
      fi
      ;;
    4)
      note "evaluate, then inspect of the older"
      run "$readers" evaluate "$folder" "$deck"
      well_behaved "0 65 66"
      run 1 inspect "$case_folder/run/checkpoints/step-00000004" --verify
      well_behaved 0
      ;;
  esac
}
# With one step more than the damaged run has. Nothing but the newest may be redone.
goes_on_past() {
  reference "$1" $words run.steps=7
  cp "$made/run/deck.toml" "$case_folder/run/deck.toml"
  run "$1" train "$deck" run.directory="$case_folder/run" $words run.steps=7
  well_behaved "0 65"
  [ "$status" = 0 ] || { refused; return; }
  as_reference "$case_folder/run"
}
