#!/usr/bin/env bash
# No variable of the environment that a library reads changes what is read or written.
# SPDX-License-Identifier: Apache-2.0
# A run that is stopped, resumed and inspected under hostile settings gives the losses,
# files and digests of the undisturbed one.
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
deck=tests/regression/tiny.toml
base="precision.compute=fp32 model.layers=1 checkpoint.every=2 checkpoint.keep=0
      run.name=environment"

tensors() { "$TRIREME" inspect "$1" --tensors | grep -E '^[0-9a-f]{32}'; }

# hostile OLD COMMAND...: under settings that lead HDF5 to the files of the folder OLD, to
# plugins, to other drivers and checks, Kokkos to other threads and to code to load, oneDNN
# to narrower types, files and words, and text and time to other places.
hostile() {
  local old=$1
  shift
  env HDF5_VDS_PREFIX="$old" HDF5_EXTFILE_PREFIX="$old" HDF5_EXT_PREFIX="$old" \
    HDF5_DRIVER=none HDF5_DRIVER_CONFIG=none HDF5_VOL_CONNECTOR=none \
    HDF5_PLUGIN_PATH="$old" HDF5_PLUGIN_PRELOAD="$old" HDF5_USE_FILE_LOCKING=BEST_EFFORT \
    HDF5_DISABLE_VERSION_CHECK=0 HDF5_NOCLEANUP=1 HDF5_DEBUG=all HDF5_PREFIX="$old" \
    HDF5_PARAPREFIX="$old" HDF5_MPI_OPT_TYPES=0 H5FD_SUBFILING_CONFIG_FILE_PREFIX="$old" \
    KOKKOS_NUM_THREADS=2 KOKKOS_NUMA=2 KOKKOS_DEVICE_ID=3 KOKKOS_NUM_DEVICES=2 \
    KOKKOS_SKIP_DEVICE=0 KOKKOS_RAND_DEVICES=2 KOKKOS_PRINT_CONFIGURATION=1 \
    KOKKOS_TUNE_INTERNALS=1 KOKKOS_PROFILE_LIBRARY="$old" KOKKOS_TOOLS_LIBS="$old" \
    DNNL_VERBOSE=2 ONEDNN_VERBOSE=2 DNNL_JIT_DUMP=1 ONEDNN_JIT_DUMP=1 \
    DNNL_DEFAULT_FPMATH_MODE=ANY ONEDNN_DEFAULT_FPMATH_MODE=ANY \
    OMPI_MCA_io=romio321 OMPI_MCA_fs=ufs ROMIO_HINTS="$old/hints" \
    LC_ALL=de_DE.UTF-8 LC_NUMERIC=tr_TR.UTF-8 LANG=tr_TR.UTF-8 LANGUAGE=de:tr \
    TZ=Asia/Kathmandu "$@"
}

# identical NAME: losses, tensors and shards equal those of the undisturbed run.
identical() {
  field "$work/$1/metrics.jsonl" loss >"$work/a"
  field "$work/whole/metrics.jsonl" loss >"$work/b"
  cmp "$work/a" "$work/b" || { paste "$work/a" "$work/b"; return 1; }
  tensors "$work/$1" >"$work/a"
  tensors "$work/whole" >"$work/b"
  [ -s "$work/a" ] && diff "$work/a" "$work/b" || return 1
  local shard
  for shard in "$work"/whole/checkpoints/step-00000006/shard-*; do
    cmp "$shard" "$work/$1/checkpoints/step-00000006/$(basename "$shard")" || return 1
  done
}

run 2 train $deck run.directory="$work/whole" $base run.steps=6
check "undisturbed" test "$status" = 0
old="$work/whole/checkpoints/step-00000002"
clean=$TRIREME
cat >"$work/hostile" <<SCRIPT
#!/usr/bin/env bash
$(declare -f hostile)
hostile "$old" "$clean" "\$@"
SCRIPT
chmod +x "$work/hostile"
TRIREME="$work/hostile"
run 2 train $deck run.directory="$work/run" $base run.steps=6 debug.fault=kill@5@1
check "hostile settings, killed: no success" test "$status" != 0
run 2 train $deck run.directory="$work/run" $base run.steps=6
check "hostile settings, resumed" test "$status" = 0
check "from the right step" grep -q '(step 4,' "$work/out"
run 1 inspect "$work/whole" --tensors
cp "$work/out" "$work/inspected"
check "hostile settings, inspected" test "$status" = 0
run 1 generate "$work/whole" --prompt abc --tokens 8
cp "$work/out" "$work/generated"
check "hostile settings, generated" test "$status" = 0
TRIREME=$clean
check "the same losses, tensors and files" identical run
run 1 inspect "$work/whole" --tensors
check "inspect prints the same" diff "$work/out" "$work/inspected"
run 1 generate "$work/whole" --prompt abc --tokens 8
check "generate prints the same" diff "$work/out" "$work/generated"
check "no files of generated code" test -z "$(compgen -G 'dnnl_dump*')"
rm -f dnnl_dump*

# OpenMP binds the first thread to one core before the program begins: the others are used
# and shown all the same.
placed() {
  printf '#!/bin/sh\nexec env -u OMP_NUM_THREADS %s "%s" "$@"\n' "$1" "$clean" >"$work/placed"
  chmod +x "$work/placed"
  TRIREME="$work/placed" run 1 train $deck $base run.steps=6 checkpoint.at_end=false \
    run.directory="$work/$2"
  TRIREME=$clean
  grep -A 1 -E '^ *rank +host +device' "$work/out" | tail -n 1 | tr -s ' ' >"$work/$2.place"
}
placed OMP_PROC_BIND=false free
check "not bound by OpenMP" test "$status" = 0 -a -s "$work/free.place"
placed "OMP_PROC_BIND=true OMP_PLACES=threads" bound
check "bound by OpenMP: all cores are used" diff "$work/free.place" "$work/bound.place"
check "bound by OpenMP: no warning" test -z "$(grep 'correct the binding' "$work/out")"

# A process that is started alone makes no folder that others of its kind remove.
TMPDIR="$work/inspected/none" run 1 train $deck $base run.directory="$work/alone" \
  checkpoint.at_end=false run.steps=6
check "alone, without a folder for files of its session" test "$status" = 0

# Where MPI cannot start, as on login nodes, what one process does still works.
without_mpi() { OMPI_MCA_pml=no-such-one run 1 "$@"; }
without_mpi train $deck run.directory="$work/none"
check "MPI cannot start" test "$status" != 0
without_mpi train $deck --check
check "train --check without MPI" grep -q 'the deck is good' "$work/out"
without_mpi plan $deck --machine inputs/machines/h100-sxm.toml --ranks 2
check "plan without MPI" grep -q '^step ' "$work/out"
cp "$work/out" "$work/planned"
run 1 plan $deck --machine inputs/machines/h100-sxm.toml --ranks 2
check "the same plan" cmp "$work/out" "$work/planned"
without_mpi plan no-such-deck.toml
check "an error without MPI" expect 66 "no-such-deck.toml"
without_mpi inspect "$work/whole"
check "inspect without MPI" test "$status" = 0
# A batch script has Slurm's rank 0 in its environment, as a step's ranks have; it is none.
in_script() { ENVIRONMENT=BATCH SLURM_PROCID=0 SLURM_NTASKS=4 without_mpi "$@"; }
in_script inspect $deck --value run.spare_nodes
check "inspect in a batch script" grep -qx 0 "$work/out"
SLURM_STEP_NUM_TASKS=1 in_script inspect $deck --value run.spare_nodes
check "a step's rank starts MPI" test "$status" != 0
without_mpi init --yes -o "$work/first.toml"
check "init without MPI" test -s "$work/first.toml"

finish
