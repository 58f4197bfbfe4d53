# Campaign: environments that libraries listen to.
# SPDX-License-Identifier: Apache-2.0
# Results are the same, or the run says why it cannot work; what is lost on standard
# output is an error.
environment_weight=120

environment_case() {
  local kinds=(variables streams variables inspect variables lost_output variables threads)
  limit=90
  "environment_${kinds[$1 % ${#kinds[@]}]}"
}

environment_draw() {
  local older=$made/run/checkpoints/step-00000002
  local all=("HDF5_VDS_PREFIX=$older" "HDF5_EXTFILE_PREFIX=$older" "HDF5_EXT_PREFIX=$older"
    "HDF5_DRIVER=core" "HDF5_DRIVER=nonsense" "HDF5_USE_FILE_LOCKING=FALSE"
    "HDF5_USE_FILE_LOCKING=nonsense" "HDF5_PLUGIN_PATH=/nowhere" "HDF5_PLUGIN_PRELOAD=::"
    "HDF5_VOL_CONNECTOR=nonsense" "HDF5_DEBUG=all" "HDF5_DISABLE_VERSION_CHECK=2"
    "LC_ALL=de_DE.UTF-8" "LC_ALL=tr_TR.UTF-8" "LC_NUMERIC=fr_FR.UTF-8" "LANG=nonsense"
    "LANGUAGE=de" "TZ=Pacific/Kiritimati" "TZ=:/dev/zero" "TZ=nonsense-99"
    "OMPI_MCA_io=romio321" "OMPI_MCA_io=ompio" "OMPI_MCA_fs=nonsense" "OMPI_MCA_sharedfp=sm"
    "OMPI_MCA_mpi_abort_delay=0" "OMPI_MCA_mpi_show_handle_leaks=1"
    "OMP_SCHEDULE=dynamic,1" "OMP_DYNAMIC=true" "OMP_NESTED=true" "OMP_STACKSIZE=64k"
    "OMP_WAIT_POLICY=active" "OMP_PROC_BIND=spread" "OMP_CANCELLATION=true"
    "GOMP_CPU_AFFINITY=0" "OMP_THREAD_LIMIT=1" "KOKKOS_NUM_THREADS=2"
    "MALLOC_PERTURB_=165" "MALLOC_ARENA_MAX=1" "MALLOC_CHECK_=3" "LD_BIND_NOW=1"
    "OPENBLAS_NUM_THREADS=2" "DNNL_VERBOSE=1" "ONEDNN_VERBOSE=1" "DNNL_JIT_DUMP=1"
    "HOME=/nowhere" "-u HOME" "-u PATH" "-u LANG" "TMPDIR=/nowhere" "TMPDIR=$case_folder/tiny"
    "COLUMNS=1" "TERM=nonsense" "SOURCE_DATE_EPOCH=0" "SLURM_JOB_END_TIME=nonsense"
    "SLURM_RESTART_COUNT=x" "PMI_RANK=3" "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"
    "POSIXLY_CORRECT=1" "XDG_RUNTIME_DIR=/nowhere" "BASH_ENV=/dev/zero")
  mkdir -p "$case_folder/tiny"
  draw 3
  local i count=$((drawn + 1)) without=() with=()
  for ((i = 0; i < count; ++i)); do
    pick "${all[@]}"
    case $picked in
      -u*) without+=(-u "${picked#-u }") ;;
      *) with+=("$picked") ;;
    esac
  done
  wrapper=(env "${without[@]}" "${with[@]}")
  note "${wrapper[*]}"
}

environment_variables() {
  local ranks compute words
  pick 1 1 2 4; ranks=$picked
  pick fp32 bf16 fp64; compute=$picked
  words="precision.compute=$compute run.steps=4 checkpoint.every=2 checkpoint.keep=0
    $constant"
  reference "$ranks" $words
  environment_draw
  run "$ranks" train "$deck" run.directory="$case_folder/run" $words run.steps=2
  # Begun and continued in it; each must be as without.
  if [ "$status" = 0 ]; then
    run "$ranks" train "$deck" run.directory="$case_folder/run" $words
  fi
  environment_verdict
}
environment_verdict() {
  wrapper=()
  # With a thread limit or a stack that is too small the OpenMP library may give up itself.
  well_behaved "0 71 73 74 78"
  [ "$status" = 0 ] || return 0
  rm -f "$case_folder/run/deck.toml"
  tensors_of_both
}
tensors_of_both() {
  tensors "$made/run/checkpoints/step-00000002" >"$case_folder/a"
  tensors "$case_folder/run/checkpoints/step-00000002" >"$case_folder/b"
  cmp -s "$case_folder/a" "$case_folder/b" || lost "other tensors at step 2"
  as_reference "$case_folder/run"
}

# What reads a checkpoint shows the checkpoint that was asked for.
environment_inspect() {
  local words="precision.compute=fp32 run.steps=4 checkpoint.every=2 checkpoint.keep=0"
  reference 2 $words
  environment_draw
  pick --tensors --verify
  run 1 inspect "$made/run" $picked
  wrapper=()
  well_behaved 0
  if [ "$picked" = --tensors ]; then
    grep -aE '^[0-9a-f]{32} ' "$case_folder/out" | sort >"$case_folder/tensors"
    cmp -s "$case_folder/tensors" "$made/tensors" || lost "other tensors are shown"
  fi
}

# Standard streams that are closed: a file that is opened next gets their number.
environment_streams() {
  local words="precision.compute=fp32 run.steps=4 checkpoint.every=2 checkpoint.keep=2"
  reference 1 $words
  local closed=('<&-' '>&-' '2>&-' '<&- >&-' '>&- 2>&-' '<&- >&- 2>&-' '>/dev/full' '2>/dev/full'
    '>/dev/full 2>/dev/full' '</dev/zero' '<&- >/dev/full')
  pick "${closed[@]}"
  note "streams $picked"
  wrapper=(bash -c "exec \"\$@\" $picked" streams)
  run 1 train "$deck" run.directory="$case_folder/run" $words
  wrapper=()
  [ "$status" != hang ] || lost "did not end"
  case $status in
    0 | 74) ;;
    *) wrong "status $status" ;;
  esac
  nobody_left
  goes_on 1 "$case_folder/run" $words
}

# Commands whose output is what they are for.
environment_lost_output() {
  local words="precision.compute=fp32 run.steps=4 checkpoint.every=2 checkpoint.keep=2" command
  reference 1 $words
  local commands=("inspect $made/run" "inspect $made/run --verify" "plan $deck" "help" "help deck"
    "help schema" "help man" "help completion" "--version" "train $deck --check"
    "generate $made/run --prompt x --tokens 4" "evaluate $made/run $deck"
    "report $made/run" "help deck --markdown")
  pick "${commands[@]}"; command=$picked
  pick '>/dev/full' '>/dev/full' '>&-'
  note "$command $picked"
  wrapper=(bash -c "exec \"\$@\" $picked" lost)
  cp LICENSE "$case_folder"  # the deck's data
  cd "$case_folder" || wrong "no folder"
  run 1 $command
  cd "$SOURCE" || wrong "no folder"
  wrapper=()
  # A report may be a file, and then nothing is lost.
  case $command in
    report*) well_behaved "0 74" ;;
    *) well_behaved 74 ;;
  esac
}

# With as many threads the same bits, however the number is given; with another number the
# same losses but for the last digits (docs/install.md).
environment_threads() {
  local words="precision.compute=fp32 run.steps=2 checkpoint.every=2 $constant" threads one
  reference 1 $words
  one=$made
  pick 1 2 3 64 1000; threads=$picked
  OMP_NUM_THREADS=$threads reference 1 $words
  note "OMP_NUM_THREADS $threads, run.threads drawn"
  pick "" "run.threads=$threads"
  wrapper=(env "OMP_NUM_THREADS=$threads")
  limit=90
  run 1 train "$deck" run.directory="$case_folder/run" $words $picked
  wrapper=()
  well_behaved "0 78"
  [ "$status" = 0 ] || return 0
  as_reference "$case_folder/run"
  paste -d: "$one/losses" "$made/losses" |
    awk -F'[: ,]+' '{ d = $2 / $4 - 1; if (d > 1e-6 || d < -1e-6) exit 1 }' ||
    lost "losses that are not those of one thread"
}
