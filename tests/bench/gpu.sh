#!/bin/bash
# The GPU's tests and benchmarks on a machine where nothing can be installed.
# SPDX-License-Identifier: Apache-2.0
#
# On a machine with compilers:
#   tests/bench/gpu.sh pack FOLDER [--emulated] [--build DIR] [--architecture 90] [--few]
#     builds the CUDA back end (--emulated: the one that runs on the host) with its tests, in
#     build/pack or in a build folder that is configured already, and puts them into FOLDER
#     with every library that they need, NVIDIA's and glibc excepted; --few: builds nothing
#     and packs the programs and two tests, to try this script
# On the machine with the GPU:
#   FOLDER/gpu.sh run FOLDER OUT [--parts a,b,c] [--seconds 570] [--quick]
#     unpacks it and runs the named parts, else those of the first call, and writes logs
#     into OUT; summary.txt comes last. `--parts second` is the second call
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
      if ($at ~ /(\.sh|bash)$/) next  # scripts need what is not packed
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

# Whether the build has NCCL, or its emulation.
has_nccl() { grep -rqs 'gpu\.nccl_bench' "$1/tests" --include=CTestTestfile.cmake; }

build_programs() {
  local targets=(trireme kernel_bench) program
  has_nccl "$1" && targets+=(nccl_bench)
  while read -r _ _ program _; do
    targets+=("$(basename "$program")")
  done < <(gpu_tests "$1")
  mapfile -t targets < <(printf '%s\n' "${targets[@]}" | sort -u)
  cmake --build "$1" --target "${targets[@]}" --parallel "${TRIREME_JOBS:-$(nproc)}"
}

pack() {
  local folder=${1:?gpu.sh pack FOLDER} emulated=no build="" architecture=90 few=no
  local packed=.
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --emulated) emulated=yes ;;
      --few) few=yes packed='^gpu\.(rope_test|mesh_test\.2) ' ;;
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
  [ $few = yes ] || build_programs "$build" || die "the build failed"
  build=$(cd "$build" && pwd)
  local root name ranks program arguments
  root=$(mktemp -d)
  mkdir -p "$root/bin" "$root/lib" "$root/inputs" "$root/tests/reference"
  cp "$build/trireme" "$build/tests/bench/kernel_bench" "$root/bin/"
  has_nccl "$build" && cp "$build/tests/bench/nccl_bench" "$root/bin/"
  gpu_tests "$build" | grep -E "$packed" | while read -r name ranks program arguments; do
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
  if [ $few = yes ]; then
    rm -f "$folder"/trireme-gpu.tar.*
    tar -C "$root" -cf - . | gzip -1 >"$folder/trireme-gpu.tar.gz" || die "tar failed"
  else
    compress "$root" "$folder"
  fi
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
  LD_LIBRARY_PATH='' python3 -c 'import torch; print("torch", torch.__version__)' 2>&1 | tail -1
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
# notes how it ended. A device, a library or a rule that has not what is asked for (status 65
# and 78) leaves it out, with the reason.
part() {
  local name=$1 seconds=$2 log=$3 left status=0 begin=$SECONDS before=0 reason=""
  shift 3
  left=$((limit - SECONDS))
  if [ $left -lt 5 ]; then
    echo "$name: left out, no time left" >>"$out/parts.txt"
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
    65 | 77 | 78) echo "$name: left out${reason:+ ($reason)}" ;;
    124 | 137) echo "$name: FAILED, stopped after $seconds s" ;;
    *) echo "$name: FAILED with status $status${reason:+ ($reason)}" ;;
  esac >>"$out/parts.txt"
  return $status
}

# ---- parts of the first call ----

# Also what loading every kernel at the start takes: a check that does next to nothing.
part_version() {
  local loading
  part "version" 30 "$out/program.log" "$root/bin/trireme" --version
  for loading in EAGER LAZY; do
    part "start with $loading" 60 "$out/program.log" env CUDA_MODULE_LOADING=$loading \
      XDG_CACHE_HOME="$root/cache" "$root/bin/trireme" selftest --device cuda --only "copies bf16"
  done
}

part_nccl() {
  if [ -x "$root/bin/nccl_bench" ]; then
    part "nccl, one rank" 60 "$out/nccl.log" "$root/bin/nccl_bench"
  else
    echo "nccl, one rank: left out (built without NCCL)" >>"$out/parts.txt"
  fi
}

# Its record is of this machine, which is given back.
part_selftest() {
  part "selftest" 90 "$out/selftest.log" env XDG_CACHE_HOME="$root/cache" \
    "$root/bin/trireme" selftest --device cuda "${few_checks[@]}"
}

part_kernels() {
  local bench=("$root/bin/kernel_bench" --device cuda "${quick[@]}")
  # What the first call is for comes first, in case there is no time for the rest.
  part "kernels: attention" 60 "$out/kernels.log" "${bench[@]}" --only attention
  part "kernels: products" 60 "$out/kernels.log" "${bench[@]}" --only "gemm ${quick:+up}"
  # CTest runs all of them on the emulated device, in a test of its own.
  [ ${#quick[@]} -gt 0 ] || part "kernels: all" 90 "$out/kernels.log" "${bench[@]}"
}

# A microbatch a step and as many tokens as peer_torch.py has.
benched=(gpt2-124m llama-1.3b gpt2-1.5b)
words_of() { [ "$1" != gpt2-124m ] || echo model.sequence=1024 batch.global=8 batch.micro=8; }

# bench_deck NAME DECK WORDS...
bench_deck() {
  local name=$1 deck=$2 words
  shift 2
  read -ra words < <(words_of "$deck")
  part "bench $name" 75 "$out/program.log" "$root/bin/trireme" bench "$root/inputs/$deck.toml" \
    run.device=cuda "${words[@]}" "$@" "${tiny[@]}" --steps "$steps" "${quick[@]}"
}

# bench_decks TYPE: with CUDA graphs off and on.
bench_decks() {
  local deck graphs
  for deck in "${benched[@]}"; do
    for graphs in false true; do
      [ ${#quick[@]} -eq 0 ] || [ "$1 $graphs" = "bf16 false" ] || continue
      bench_deck "$deck $1 graphs=$graphs" "$deck" "precision.compute=$1" "run.cuda_graphs=$graphs"
    done
  done
}

part_bench() { bench_decks bf16; }
part_fp8() { bench_decks fp8; }

# Keys whose defaults were chosen without a GPU.
part_keys() {
  local key
  for key in run.logits_bytes=134217728 precision.logits=fp32 run.gemm_search=true \
    attention.library=own; do
    bench_deck "gpt2-124m $key" gpt2-124m precision.compute=bf16 "$key"
  done
}

# As the peers run: the pack's own libraries are not for them.
python_of_peers() { env PYTHONUNBUFFERED=1 LD_LIBRARY_PATH='' python3 "$@"; }

# peers NAME MODULE LOG WHAT...: peer_torch.py, where PyTorch or what else it needs is there.
peers() {
  local name=$1 module=$2 log=$3 what options=()
  shift 3
  if ! python_of_peers -c "import $module" 2>/dev/null; then
    echo "$name $*: left out (not here)" >>"$out/parts.txt"
    return
  fi
  [ "$module" = torch ] || options=(--engine)
  for what in "$@"; do
    part "$name $what" 75 "$log" env PYTHONUNBUFFERED=1 LD_LIBRARY_PATH='' \
      python3 "$root/peer_torch.py" "$what" "${options[@]}"
  done
}

part_peer_kernels() { peers PyTorch torch "$out/torch.log" attention gemm; }
part_peers() { peers PyTorch torch "$out/torch.log" gpt2 llama gpt2-xl; }
part_engine() {
  peers "Transformer Engine" transformer_engine.pytorch "$out/engine.log" gpt2 llama
}

# ---- parts of the second call ----

# packed_tests CONDITION: lines of tests.txt whose number of ranks fits; not those of whole
# trainings, which are a part of their own.
packed_tests() { awk -v want="$1" '
  $1 ~ /equality|mesh_table/ { if (want == "long") print; next }
  want == "one" && $2 == 1 || want == "more" && $2 > 1' "$root/tests.txt"; }

# All of them; in a dry run two.
few() { if [ ${#quick[@]} -gt 0 ]; then head -2; else cat; fi; }

run_test() {
  local name=$1 ranks=$2 program=$3 seconds=$4 log=$5 command
  shift 5
  command=("$root/bin/$program")
  [ "$ranks" -eq 1 ] || command=("$root/bin/orterun" -n "$ranks" "$root/bin/$program")
  TRIREME_TEST_DEVICE=cuda OMP_NUM_THREADS=4 part "$name" "$seconds" "$log" \
    "${command[@]}" "$@"
}

# Four at a time: most of a test's time goes into starting it. Each has a log of its own,
# which are put together in the end.
part_tests() {
  local name ranks program arguments running=0
  while read -r name ranks program arguments <&3; do
    # shellcheck disable=SC2086 # arguments are words
    run_test "$name" "$ranks" "$program" 90 "$out/tests-$name.log" $arguments &
    running=$((running + 1))
    [ $running -lt 4 ] || { wait -n; running=$((running - 1)); }
  done 3< <(packed_tests one | few)
  wait
  cat "$out"/tests-*.log >>"$out/tests.log" 2>/dev/null
  rm -f "$out"/tests-*.log
}

# tests_in_turn SECONDS CONDITION
tests_in_turn() {
  local seconds=$1 name ranks program arguments
  while read -r name ranks program arguments <&3; do
    # shellcheck disable=SC2086 # arguments are words
    run_test "$name" "$ranks" "$program" "$seconds" "$out/tests.log" $arguments
  done 3< <(packed_tests "$2" | few)
}

part_ranks() { tests_in_turn 90 more; }
part_equality() { tests_in_turn 300 long; }

# Every unit test on one rank, under the two checkers. Their own time limits are short: they
# run a hundred times slower, and a part tells as much as the whole.
part_sanitizers() {
  local tool name ranks program arguments
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer: left out (not here)" >>"$out/parts.txt"
    return
  fi
  for tool in memcheck racecheck; do
    while read -r name ranks program arguments <&3; do
      [[ $program == *_test ]] || continue
      TRIREME_TEST_DEVICE=cuda part "$tool $name" 25 "$out/sanitizer.log" \
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$root/bin/$program" \
        --gtest_filter='-*CutOperands*:*Large*'
    done 3< <(packed_tests one)
  done
}

# What answers most comes first: ten minutes may not be enough for all.
first_call=(version nccl selftest kernels peer_kernels bench peers fp8 keys engine)
second_call=(version tests ranks equality sanitizers)

# ---- the page ----

# The GPU's clocks, power and heat: what the numbers between two of these lines are worth.
note_clocks() {
  command -v nvidia-smi >/dev/null || { echo "$1: no nvidia-smi"; return; }
  echo "$1: $(nvidia-smi --format=csv,noheader \
    --query-gpu=name,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_throttle_reasons.active)"
}

# claim WHERE WHAT NUMBER: a row of the page.
claim() { printf '%-20s %-66s %s\n' "$1" "$2" "${3:-not measured}"; }

# joined TEXT...: those that say something.
joined() {
  local text all=""
  for text in "$@"; do [ -z "$text" ] || all+="${all:+; }$text"; done
  echo "$all"
}

# step_of NAME: the median step of a bench.
step_of() { in_part program.log "bench $1" 'of the .* GEMM rate' 's/.*; (median step .*)/\1/'; }

# kernel_of NAME KERNEL: its milliseconds in a step of a bench.
kernel_of() { in_part program.log "bench $1" "^kernel .*$2" 's/^kernel +([^ ]+ ms a step).*/\1/'; }

# The line of a log's part (== NAME) that fits a pattern, or what stands in it after sed.
in_part() {  # LOG NAME PATTERN [SED]
  [ -e "$out/$1" ] || return 0
  awk -v name="== $2" '/^== / { inside = $0 == name } inside' "$out/$1" |
    grep -E -- "$3" | tail -1 | sed -E "${4:-s/^//}"
}

# "512.3 us, 41.2 TFLOP/s": of a line of kernel_bench or peer_torch.py.
rate() {  # LOG START-OF-THE-NAME
  [ -e "$out/$1" ] || return 0
  local columns=$((${#2} > 60 ? ${#2} : 60))  # a long name takes more than its column
  grep -F -- "$2" "$out/$1" | tail -1 | sed -E "s/^.{$columns} *//; s/ +/ /g"
}

# "passed", "FAILED ..." of a part.
verdict() { sed -n "s/^$1: //p" "$out/parts.txt" | tail -1; }

deck_claims() {
  local deck name compute graphs mfu='s/^mfu ([^,]*), .* peak in ([^,]*).*/\1 (\2)/; s/, .*//'
  for deck in "${benched[@]}"; do
    for compute in bf16 fp8; do
      for graphs in false true; do
        name="bench $deck $compute graphs=$graphs"
        claim "gpu.md" "$deck, $compute, graphs $graphs: MFU; share of the measured product" \
          "$(joined "$(in_part program.log "$name" '^mfu .* in fp8' "$mfu")" \
            "$(in_part program.log "$name" '^mfu' "$mfu")" \
            "$(in_part program.log "$name" 'of the .* GEMM rate' \
              's/.*each step: (median [^,]*),.*; (median .*)/\1, \2/')")"
      done
    done
  done
}

attention_claims() {
  local kind width heads sequence=4096 name
  for width in 64 128; do
    heads=$([ $width = 64 ] && echo 12 || echo 16)
    for kind in "" " backward"; do
      name="attention$kind width $width S $sequence causal, $heads heads"
      claim "attention.md" "$name: own kernels" "$(rate kernels.log "$name, own")"
      [ -z "$kind" ] || claim "" "  own kernels in two passes" "$(rate kernels.log \
        "attention backward 2 passes, ${name#*backward }, own")"
      claim "" "  cuDNN" "$(rate kernels.log "$name, cuDNN")"
      [ -z "$kind" ] || claim "" "  cuDNN, in any order" "$(rate kernels.log \
        "attention backward any order, ${name#*backward }, cuDNN")"
      claim "" "  PyTorch's best" "$(rate torch.log "$name (")"
    done
  done
}

# head_rate ENTRIES: of the weight gradient of a head with so many.
head_rate() {
  grep -s "^gemm head, weight gradient [0-9]* x $1 x" "$out/kernels.log" | tail -1 |
    sed -E 's/^.{60} *//; s/ +/ /g'
}

# A row for each point of the document whose number one GPU gives, and the others by name.
bring_up_claims() {
  local plain="gpt2-124m bf16 graphs=false"
  claim "gpu-bring-up.md" "B1, B4 to B7, P5, P8, P9: need several GPUs" ""
  claim "" "B2, the ledger is as planned: gpu_memory_test" "$(verdict 'gpu.gpu_memory_test.2')"
  claim "" "B3, attention fits every GPU: attention_test" "$(verdict gpu.attention_test)"
  claim "" "B8, no epilogue is refused: gemm_epilogue_test" "$(verdict gpu.gemm_epilogue_test)"
  claim "" "B9, PyTorch was found" "$(grep -s -m 1 '^PyTorch ' "$out/torch.log")"
  claim "" "B10, GPT-2 124M with own attention: $(step_of "$plain"), and" \
    "$(step_of "gpt2-124m attention.library=own")"
  claim "" "P2, with logits of 128 MiB at once" "$(step_of "gpt2-124m run.logits_bytes=134217728")"
  claim "" "P2, with logits in fp32" "$(step_of "gpt2-124m precision.logits=fp32")"
  claim "" "P2, gradient of the loss in place of the logits" \
    "$(rate kernels.log "cross_entropy gradient, in place gpt2")"
  local vocabulary
  for vocabulary in 50304 50257 50240; do
    claim "" "P2, weight gradient of a head of $vocabulary entries" "$(head_rate $vocabulary)"
  done
  claim "" "P3, 100 sums of 1 KiB on one rank" \
    "$(in_part nccl.log 'nccl, one rank' '^nccl 100 of 1 KiB' 's/^nccl 100 of 1 KiB +//')"
  claim "" "P4, codes in both orders by one kernel, llama" \
    "$(rate kernels.log "quantize and transpose llama")"
  claim "" "P6, the optimizer in a step of GPT-2 124M" "$(kernel_of "$plain" optimizer)"
  claim "" "P7, with proposals for products that were timed" "$(step_of "gpt2-124m run.gemm_search=true")"
  claim "" "P10, outside kernels in a step of GPT-2 124M" "$(kernel_of "$plain" 'outside kernels')"
}

write_claims() {
  claim "README.md" "the program starts: trireme --version" "$(verdict version)"
  claim "gpu-bring-up.md" "a start with all kernels loaded; as they are needed" \
    "$(joined "$(verdict "start with EAGER")" "$(verdict "start with LAZY")")"
  claim "selftest.md" "every check of the self-test" \
    "$(in_part selftest.log selftest '^self-test: ')"
  claim "gpu.md" "NCCL makes a communicator of one rank" \
    "$(in_part nccl.log 'nccl, one rank' '^nccl init' 's/^nccl init +//'), $(verdict 'nccl, one rank')"
  attention_claims
  local fused
  for fused in "up" "down, input gradient"; do
    claim "fused-kernels.md" "gemm $fused, gelu, in one call" \
      "$(rate kernels.log "gemm $fused, gelu gpt2")"
    claim "" "  one after the other" "$(rate kernels.log "gemm $fused, then gelu gpt2")"
  done
  claim "fused-kernels.md" "gemm up, weight and bias gradient in one call" \
    "$(rate kernels.log "gemm up, weight and bias gradient gpt2")"
  claim "" "  one after the other" \
    "$(rate kernels.log "gemm up, weight, then bias gradient gpt2")"
  claim "fp8.md" "product of FP8, one scale for each tensor, llama" \
    "$(rate kernels.log "fp8 product llama tensor")"
  claim "codes.md" "one token by a matrix of NF4 codes, llama" \
    "$(rate kernels.log "codes llama nf4 product 1 x")"
  claim "" "  by one of int8, by one of FP8" \
    "$(joined "$(rate kernels.log "codes llama int8 product 1 x")" \
      "$(rate kernels.log "codes llama fp8 128x128 product 1 x")")"
  claim "gpu.md" "norms read each byte once: residual + rms_norm llama" \
    "$(rate kernels.log "residual + rms_norm llama")"
  deck_claims
  claim "tests/bench" "PyTorch's step of GPT-2 124M (compile)" \
    "$(rate torch.log "step of GPT-2 124M,")"
  claim "" "  of GPT-2 1.5B" "$(rate torch.log "step of GPT-2 1.5B,")"
  claim "" "  of the Llama of 1.3 billion" "$(rate torch.log "step of a Llama")"
  claim "" "  of GPT-2 124M, of the Llama in FP8 by Transformer Engine" \
    "$(joined "$(rate engine.log "step of GPT-2 124M")" "$(rate engine.log "step of a Llama")")"
  bring_up_claims
  claim "gpu.md" "every gradient equals the host's: gpu_engine_test" \
    "$(verdict gpu.gpu_engine_test)"
  claim "cuda-graphs.md" "graphs change no bit: gpu_graphs_test" "$(verdict gpu.gpu_graphs_test)"
}

write_summary() {
  {
    [ "$emulated" = no ] || echo "A dry run on the emulated device: no number here says anything of a GPU."
    cat "$out/clocks.txt"
    echo
    write_claims
    echo
    if [ "$(wc -l <"$out/parts.txt")" -le 30 ]; then
      cat "$out/parts.txt"
    else  # one page: what did not pass
      grep -v ': passed' "$out/parts.txt"
    fi
    echo "passed: $(grep -c ': passed' "$out/parts.txt")"
    echo "left out: $(grep -c ': left out' "$out/parts.txt")"
    echo "failed: $(grep -c 'FAILED' "$out/parts.txt")"
    echo "seconds: $SECONDS"
  } >"$out/summary.txt"
}

read_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --seconds) limit=${2:?--seconds N} && shift ;;
      --parts) IFS=, read -ra parts <<<"${2:?--parts a,b,c}" && shift ;;
      --quick) quick=(--quick) ;;
      *) die "run does not know $1" ;;
    esac
    shift
  done
  local name known
  known=" ${first_call[*]} ${second_call[*]} "
  case ${parts[*]} in
    first) parts=("${first_call[@]}") ;;
    second) parts=("${second_call[@]}") ;;
  esac
  for name in "${parts[@]}"; do
    [[ $known == *" $name "* ]] ||
      die "there is no part '$name'; there are first, second,$known"
  done
}

run() {
  local folder=${1:?gpu.sh run FOLDER OUT} name
  out=${2:?gpu.sh run FOLDER OUT}
  shift 2
  limit=570
  parts=("${first_call[@]}")
  quick=() few_checks=() tiny=() steps=5
  read_options "$@"
  SECONDS=0
  mkdir -p "$out" && out=$(cd "$out" && pwd)
  : >"$out/parts.txt"
  unpack "$folder"
  # A dry run, to see that every part runs: the emulated device is a thousand times slower.
  [ "$emulated" = no ] || quick=(--quick)
  if [ ${#quick[@]} -gt 0 ]; then
    tiny=(model.layers=1 model.hidden=64 model.heads=1 model.feed_forward=64
      model.vocabulary=64 model.sequence=32 batch.global=2 batch.micro=1)
    steps=1
    few_checks=(--only '*s bf16')
  fi
  check_start >"$out/machine.log" 2>&1 ||
    echo "start: FAILED, packed programs do not start here: see machine.log" >>"$out/parts.txt"
  note_clocks "before" >"$out/clocks.txt"
  for name in "${parts[@]}"; do "part_$name"; done
  note_clocks "after" >>"$out/clocks.txt"
  write_summary
  cat "$out/machine.log" "$out"/kernels.log "$out"/torch.log "$out"/summary.txt 2>/dev/null
  ! grep -q FAILED "$out/parts.txt"
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
