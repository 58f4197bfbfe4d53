#!/bin/bash
# The GPU's tests and benchmarks on a machine where nothing can be installed.
# SPDX-License-Identifier: Apache-2.0
#
# On a machine with compilers:
#   tests/bench/gpu.sh pack FOLDER [--emulated] [--build DIR] [--architecture 90]
#     builds the CUDA back end (--emulated: the one that runs on the host) with its tests, in
#     build/pack or in a build folder that is configured already, and puts them into FOLDER
#     with every library that they need, NVIDIA's and glibc excepted
# On the machine with the GPU:
#   FOLDER/gpu.sh run FOLDER OUT [--seconds 540]
#     unpacks and runs all of it, and writes logs into OUT; summary.txt comes last
#   FOLDER/gpu.sh check FOLDER OUT
#     says why packed programs would not start here, and what there is to build them with
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "gpu.sh: $*" >&2
  exit 64
}

# ---- pack ----

# Libraries of the GPU machine's own: glibc's, which must fit its kernel and loader, and
# NVIDIA's, which are large and belong to its driver.
is_foreign() {
  case $(basename "$1") in
    ld-linux* | linux-vdso* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | \
      librt.so.* | libresolv.so.* | libutil.so.* | libnss_* | libanl.so.*) return 0 ;;
    libcuda.so* | libcudart.so* | libcublas* | libnccl* | libcudnn* | libnv* | \
      libcufft* | libcurand* | libcusparse* | libcusolver*) return 0 ;;
  esac
  return 1
}

# copy_libraries DIR FILE...: what ldd finds for the files, into DIR.
copy_libraries() {
  local to=$1 library
  shift
  while read -r library; do
    is_foreign "$library" || [ -e "$to/$(basename "$library")" ] ||
      cp -L "$library" "$to/"
  done < <(for file in "$@"; do ldd "$file" 2>/dev/null; done |
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u)
}

# The tests gpu.* that CMake wrote down, one a line: name, ranks, program, arguments.
gpu_tests() {
  grep -rh '^add_test(\[=\[gpu\.' "$1/tests" --include=CTestTestfile.cmake |
    sed -E 's/^add_test\(\[=\[([^]]*)\]=\] (.*)\)$/\1 \2/; s/"//g' |
    awk '{
      ranks = 1; at = 2
      if ($2 ~ /(mpiexec|mpirun)$/) {
        for (i = 3; i <= NF; i++) if ($i ~ /\/tests\//) { at = i; break }
        for (i = 3; i < at; i++) if ($i ~ /^[0-9]+$/) { ranks = $i; break }
      }
      printf "%s %s %s", $1, ranks, $at
      for (i = at + 1; i <= NF; i++) printf " %s", $i
      print ""
    }' | sort -u
}

# Open MPI finds its plugins and texts below OPAL_PREFIX where they lie below /usr here;
# PMIx likewise.
copy_open_mpi() {
  local root=$1 folder prefix
  command -v ompi_info >/dev/null || return 0
  prefix=$(ompi_info --path prefix --parsable | cut -d: -f3)
  for key in pkglibdir pkgdatadir; do
    folder=$(ompi_info --path $key --parsable | cut -d: -f3)
    [ -d "$folder" ] || continue
    mkdir -p "$root/${folder#"$prefix"/}"
    cp -rL "$folder/." "$root/${folder#"$prefix"/}/"
  done
  for folder in "$prefix"/lib/*/pmix*/lib/pmix "$prefix"/lib/*/pmix "$prefix"/share/pmix; do
    [ -d "$folder" ] || continue
    mkdir -p "$root/${folder#"$prefix"/}"
    cp -rL "$folder/." "$root/${folder#"$prefix"/}/"
  done
  mkdir -p "$root/bin"
  for tool in orterun orted; do
    cp -L "$(command -v $tool)" "$root/bin/"
  done
  # Ranks of one machine need no network's plugins, nor the large libraries behind them.
  local plugins plugin
  while read -r plugin; do
    if readelf -d "$plugin" |
      grep -qE 'NEEDED.*(libfabric|psm|libuc[pst]|ibverbs|rdmacm|mca_common_(ofi|ucx|verbs))'
    then
      rm "$plugin"
    fi
  done < <(find "$root" -name 'mca_*.so')
  mapfile -t plugins < <(find "$root" -name 'mca_*.so')
  copy_libraries "$root/lib" "$root"/bin/* "${plugins[@]}"
}

configure() {
  local build=$1 emulated=$2 architecture=$3 options
  options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DTRIREME_NATIVE=OFF -DBUILD_TESTING=ON)
  [ "$(uname -m)" != x86_64 ] || options+=(-DCMAKE_CXX_FLAGS=-march=x86-64-v3)
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  if [ "$emulated" = yes ]; then
    options+=(-DTRIREME_CUDA=EMULATED)
  else
    options+=(-DTRIREME_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$architecture")
  fi
  cmake -S "$here/../.." -B "$build" "${options[@]}" >/dev/null
}

build_programs() {
  local targets=(trireme kernel_bench) program
  while read -r _ _ program _; do
    targets+=("$(basename "$program")")
  done < <(gpu_tests "$1")
  mapfile -t targets < <(printf '%s\n' "${targets[@]}" | sort -u)
  cmake --build "$1" --target "${targets[@]}" --parallel "${TRIREME_JOBS:-$(nproc)}"
}

pack() {
  local folder=${1:?gpu.sh pack FOLDER} emulated=no build="" architecture=90
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --emulated) emulated=yes ;;
      --build) build=${2:?--build DIR} && shift ;;
      --architecture) architecture=${2:?--architecture N} && shift ;;
      *) die "pack does not know $1" ;;
    esac
    shift
  done
  local source="$here/../.."
  if [ -z "$build" ]; then
    build="$source/build/pack$([ "$emulated" = no ] || echo -emulated)"
    configure "$build" "$emulated" "$architecture" || die "CMake failed"
  fi
  build_programs "$build" || die "the build failed"
  build=$(cd "$build" && pwd)
  local root name ranks program arguments
  root=$(mktemp -d)
  mkdir -p "$root/bin" "$root/lib" "$root/inputs" "$root/tests/reference"
  cp "$build/trireme" "$build/tests/bench/kernel_bench" "$root/bin/"
  gpu_tests "$build" | while read -r name ranks program arguments; do
    cp "$program" "$root/bin/"
    echo "$name $ranks $(basename "$program") $arguments"
  done >"$root/tests.txt"
  copy_libraries "$root/lib" "$root"/bin/*
  copy_open_mpi "$root"
  find "$root/bin" "$root/lib" -type f -exec strip {} + 2>/dev/null
  cp "$source"/inputs/*.toml "$root/inputs/"
  cp "$source"/tests/reference/*.h5 "$root/tests/reference/" 2>/dev/null
  cp "$source/tests/bench/peer_torch.py" "$root/"
  echo "emulated=$emulated" >"$root/kind"
  mkdir -p "$folder"
  compress "$root" "$folder"
  cp "${BASH_SOURCE[0]}" "$folder/gpu.sh"
  echo "packed: $(find "$root" -type f | wc -l) files," \
    "$(du -h --apparent-size "$folder"/trireme-gpu.tar.* | cut -f1)," \
    "$(wc -l <"$root/tests.txt") tests on a GPU"
  rm -rf "$root"
}

# By gzip, which every machine has; by xz if that makes more than may be carried: every
# program holds the same kernels, and one thread with a window of 128 MiB finds those of the
# program before (530 MB become 41).
compress() {
  local root=$1 folder=$2 most=$((64 << 20))
  rm -f "$folder"/trireme-gpu.tar.*
  tar -C "$root" -cf - . | gzip -6 >"$folder/trireme-gpu.tar.gz" || die "tar failed"
  [ "$(stat -c %s "$folder/trireme-gpu.tar.gz")" -gt $most ] || return 0
  rm "$folder/trireme-gpu.tar.gz"
  tar -C "$root" --sort=name -cf - . |
    xz -T1 --lzma2=preset=1,dict=128MiB,mf=hc4 >"$folder/trireme-gpu.tar.xz" ||
    die "xz failed"
  [ "$(stat -c %s "$folder/trireme-gpu.tar.xz")" -le $most ] ||
    echo "gpu.sh: the pack is larger than 64 MiB" >&2
}

# ---- what the GPU machine does ----

# Folders with NVIDIA's libraries: the toolkit's, and those of Python packages.
nvidia_folders() {
  local folder
  for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib \
    /usr/local/nvidia/lib64 /opt/nvidia/*/lib64; do
    [ -d "$folder" ] && echo "$folder"
  done
  command -v python3 >/dev/null &&
    python3 -c 'import glob, site, sys
for path in {p for p in sys.path + site.getsitepackages() if p.endswith("-packages")}:
    print("\n".join(sorted(glob.glob(path + "/nvidia/*/lib"))))' 2>/dev/null
}

unpack() {
  root=$(mktemp -d) || exit 73
  local pack
  pack=$(find "$1" -maxdepth 1 -name 'trireme-gpu.tar.*' | head -1)
  [ -n "$pack" ] || die "$1 holds no pack: gpu.sh pack $1 makes one"
  tar -C "$root" -xf "$pack" || die "$pack cannot be unpacked"
  # shellcheck source=/dev/null
  . "$root/kind"
  local libraries
  libraries=$root/lib:$(nvidia_folders | grep . | tr '\n' ':')
  export LD_LIBRARY_PATH=${libraries%:}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PATH=$root/bin:$PATH:/usr/local/cuda/bin
  export HOME=${HOME:-/tmp}
  local pmix
  pmix=$(find "$root/lib" -type d -path '*/lib/pmix' | head -1)
  export OPAL_PREFIX=$root PMIX_INSTALL_PREFIX=${pmix%/lib/pmix} TRIREME_SOURCE=$root
  export HWLOC_PLUGINS_PATH=$root/none  # those of the machine need libraries of its own
  export TRIREME_PROGRAM=$root/bin/trireme TRIREME_MPIEXEC=$root/bin/orterun
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_hwloc_base_binding_policy=none OMP_PROC_BIND=false
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  trap 'rm -rf "$root"' EXIT
}

# What each packed program lacks here. Fails if anything is missing.
missing_libraries() {
  local program status=0 lacking
  for program in "$root"/bin/*; do
    lacking=$(ldd "$program" 2>&1 | grep -E 'not found|not a dynamic' | sort -u)
    [ -n "$lacking" ] || continue
    status=1
    echo "$(basename "$program"):"
    echo "$lacking"
  done
  return $status
}

describe_machine() {
  nvidia-smi 2>&1 || echo "nvidia-smi: not here"
  uname -srm
  ldd --version 2>&1 | head -1
  lscpu 2>/dev/null | grep -E '^(Model name|CPU\(s\))'
  local tool
  for tool in nvcc cmake ninja g++ mpicc compute-sanitizer ncu python3; do
    printf '%-18s %s\n' "$tool" "$(command -v $tool || echo 'not here')"
  done
  command -v nvcc >/dev/null && nvcc --version | tail -2
  LD_LIBRARY_PATH= python3 -c 'import torch; print("torch", torch.__version__)' 2>&1 | tail -1
}

check_start() {
  describe_machine
  echo
  echo "Libraries:"
  missing_libraries && echo "nothing is missing"
  echo
  timeout 60 "$root/bin/trireme" --version
}

# part NAME SECONDS LOG COMMAND...: runs it, at most so long and no longer than is left, and
# notes how it ended. Prints the status for callers that count.
part() {
  local name=$1 seconds=$2 log=$3 left status=0 begin=$SECONDS before=0 reason=""
  shift 3
  left=$((limit - SECONDS))
  if [ $left -lt 5 ]; then
    echo "$name: left out, no time left" >>"$out/summary.txt"
    return 124
  fi
  [ "$seconds" -lt $left ] || seconds=$left
  [ ! -e "$log" ] || before=$(wc -l <"$log")
  printf '\n== %s\n' "$name" >>"$log"
  timeout --kill-after=10 "$seconds" "$@" </dev/null >>"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then  # what the part itself said last of it
    reason=$(tail -n "+$((before + 3))" "$log" | grep -E '^skipped: |[Ee]rror' |
      tail -1 | sed 's/^skipped: //' | cut -c1-200)
  fi
  case $status in
    0) echo "$name: passed, $((SECONDS - begin)) s" ;;
    77) echo "$name: skipped${reason:+ ($reason)}" ;;
    124 | 137) echo "$name: FAILED, stopped after $seconds s" ;;
    *) echo "$name: FAILED with status $status${reason:+ ($reason)}" ;;
  esac >>"$out/summary.txt"
  return $status
}

run_tests() {
  local name ranks program arguments command
  while read -r name ranks program arguments <&3; do
    command=("$root/bin/$program")
    [ "$ranks" -eq 1 ] || command=("$root/bin/orterun" -n "$ranks" "$root/bin/$program")
    # shellcheck disable=SC2086 # arguments are words
    TRIREME_TEST_DEVICE=cuda OMP_NUM_THREADS=4 \
      part "$name" 90 "$out/tests.log" "${command[@]}" $arguments
  done 3<"$root/tests.txt"
}

# Every unit test on one rank, under the two checkers. Their own time limits are short: they
# run a hundred times slower, and a part tells as much as the whole.
run_sanitizers() {
  local tool name ranks program arguments
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer: not here" >>"$out/summary.txt"
    return
  fi
  for tool in memcheck racecheck; do
    while read -r name ranks program arguments <&3; do
      if [ "$ranks" -gt 1 ] || [[ $program != *_test ]]; then continue; fi
      TRIREME_TEST_DEVICE=cuda part "$tool $name" 25 "$out/sanitizer.log" \
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$root/bin/$program" \
        --gtest_filter='-*CutOperands*:*Large*'
    done 3<"$root/tests.txt"
  done
}

run_program() {
  local bench=("$root/bin/trireme" bench) device=(run.device=cuda --steps 5) deck
  part "trireme --version" 30 "$out/program.log" "$root/bin/trireme" --version
  part "trireme bench gpt2-124m" 60 "$out/program.log" "${bench[@]}" \
    "$root/inputs/gpt2-124m.toml" precision.compute=bf16 model.sequence=1024 \
    batch.global=8 batch.micro=8 "${device[@]}"
  for deck in llama-1.3b gpt2-1.5b; do
    part "trireme bench $deck" 90 "$out/program.log" "${bench[@]}" \
      "$root/inputs/$deck.toml" "${device[@]}"
  done
}

run_peers() {
  # As the peers run: the pack's own libraries are not for them.
  if ! LD_LIBRARY_PATH= python3 -c 'import torch' 2>/dev/null; then
    echo "PyTorch: not here" >>"$out/summary.txt"
    return
  fi
  local what
  for what in gemm attention gpt2 gpt2-xl llama; do
    part "PyTorch $what" 110 "$out/torch.log" \
      env PYTHONUNBUFFERED=1 LD_LIBRARY_PATH= python3 "$root/peer_torch.py" "$what"
  done
}

run() {
  local folder=${1:?gpu.sh run FOLDER OUT}
  out=${2:?gpu.sh run FOLDER OUT}
  limit=540
  [ "${3:-}" = --seconds ] && limit=${4:?--seconds N}
  SECONDS=0
  mkdir -p "$out" && out=$(cd "$out" && pwd)
  : >"$out/summary.txt"
  unpack "$folder"
  check_start >"$out/machine.log" 2>&1 ||
    echo "packed programs do not start here: see machine.log" >>"$out/summary.txt"
  local bench=(--device cuda)
  [ "$emulated" = no ] || bench+=(--quick)
  run_tests
  part kernel_bench 120 "$out/kernels.log" "$root/bin/kernel_bench" "${bench[@]}"
  run_program
  [ "$emulated" = no ] && run_peers
  run_sanitizers
  {
    grep -c ': passed' "$out/summary.txt" | sed 's/^/passed: /'
    grep -c 'FAILED' "$out/summary.txt" | sed 's/^/failed: /'
    echo "seconds: $SECONDS"
  } >"$out/totals"
  cat "$out/totals" >>"$out/summary.txt" && rm "$out/totals"
  cat "$out/machine.log" "$out"/kernels.log "$out"/torch.log "$out"/summary.txt 2>/dev/null
  ! grep -q FAILED "$out/summary.txt"
}

check() {
  out=${2:?gpu.sh check FOLDER OUT}
  mkdir -p "$out"
  unpack "${1:?gpu.sh check FOLDER OUT}"
  check_start 2>&1 | tee "$out/machine.log"
}

case ${1:-} in
  pack | run | check) "$@" ;;
  *) die "usage: gpu.sh pack FOLDER | run FOLDER OUT | check FOLDER OUT" ;;
esac
