#!/bin/bash
# Installs what is missing (on Debian and its kin), configures a preset and builds it.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: cmake/setup.sh PRESET [TARGET...]     (presets: cmake --list-presets)
#        cmake/setup.sh --packages build|run   only prints Debian's packages: to build the program,
#                                              or to run one that was built (containers/)
#   TRIREME_OPTIONS="-D... ..."  more options of cmake
#   TRIREME_PACKAGES=skip   install nothing (libraries from Spack, modules, ...)
#   TRIREME_JOBS=<n>        compile that many files at once (default: by cores and memory)
# Preset fuzz ends with status 77 where there is no clang with libFuzzer.
# A second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: cmake/setup.sh PRESET [TARGET...]}
shift

# Kokkos comes with Debian's Trilinos; its package file also wants trilinos-dev.
packages=(
  g++ cmake ninja-build ccache
  libopenmpi-dev openmpi-bin libhdf5-openmpi-dev hdf5-tools
  libtrilinos-kokkos-dev libtrilinos-kokkos-13.2 trilinos-dev
  libdnnl-dev libopenblas-openmp-dev
  libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev
  libpcre2-dev zlib1g-dev libzstd-dev libedit-dev
)
run_packages=(  # of these the libraries, and what starts ranks
  openmpi-bin openssh-client libhdf5-openmpi-103-1 libtrilinos-kokkos-13.2
  libdnnl2 libopenblas0-openmp libtomlplusplus3
  libpcre2-8-0 zlib1g libzstd1 libedit2
)
if [ "$preset" = --packages ]; then
  case ${1:-} in
    build) echo "${packages[@]}" ;;
    run) echo "${run_packages[@]}" ;;
    *) echo "usage: cmake/setup.sh --packages build|run" >&2 && exit 64 ;;
  esac
  exit
fi
optional=()  # tests that want them are skipped without
case $preset in
  tests | ci)
    packages+=(libgtest-dev clang-format)
    optional+=(slurm-wlm)
    ;;
  fuzz) optional+=(clang libclang-rt-dev) ;;
  release) ;;
  *) packages+=(libgtest-dev) ;;
esac

# Runs a command and shows its output only if it fails.
quietly() {
  local output status=0
  output=$("$@" 2>&1) || status=$?
  [ $status -eq 0 ] || echo "$output" >&2
  return $status
}

# missing PACKAGE...: those that are not installed.
missing() {
  local package
  for package; do
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]
    then
      echo "$package"
    fi
  done
}

install_packages() {
  local wanted extra as_root=()
  mapfile -t wanted < <(missing "${packages[@]}")
  mapfile -t extra < <(missing "${optional[@]}")
  [ $((${#wanted[@]} + ${#extra[@]})) -eq 0 ] && return
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
    if ! sudo -n true 2>/dev/null; then
      [ ${#wanted[@]} -eq 0 ] && return
      echo "Some packages are missing. Run this, then the same command again:" >&2
      echo "  sudo apt-get install --no-install-recommends ${wanted[*]}" >&2
      echo "or, where their libraries come from elsewhere, set TRIREME_PACKAGES=skip" >&2
      exit 66
    fi
  fi
  echo "-- Installing: ${wanted[*]} ${extra[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  if [ ${#wanted[@]} -gt 0 ]; then
    quietly "${apt[@]}" update
    quietly "${apt[@]}" -y install --no-install-recommends "${wanted[@]}"
  fi
  if [ ${#extra[@]} -gt 0 ] &&
    ! { "${apt[@]}" update && "${apt[@]}" -y install --no-install-recommends "${extra[@]}"
    } >/dev/null 2>&1; then
    echo "-- Left out, could not be installed: ${extra[*]}"
  fi
}

# One compiler per core, and 1.5 GB of memory for each.
jobs() {
  local memory_kib cores
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)
  local fit=$((memory_kib / 1500000))
  echo $((fit < 1 ? 1 : fit < cores ? fit : cores))
}

if [ "${TRIREME_PACKAGES:-}" != skip ] && command -v dpkg-query >/dev/null; then
  install_packages
fi
has_libfuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null
}
if [ "$preset" = fuzz ] && ! has_libfuzzer; then
  echo "-- No clang with libFuzzer (Debian: clang and libclang-rt-dev)"
  exit 77
fi
read -ra options <<<"${TRIREME_OPTIONS:-}"
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}  # the cache serves other clones too
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=true
  case $preset in  # nobody debugs these: the folder in their line numbers may be another clone's
    ci-sanitize | fuzz) export CCACHE_NOHASHDIR=true ;;
    *cuda) options+=(-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache) ;;
  esac
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
echo "-- Configuring build/$preset"
quietly cmake --preset "$preset" "${options[@]}"
echo "-- Building build/$preset"
cmake --build --preset "$preset" --parallel "${TRIREME_JOBS:-$(jobs)}" ${1:+--target "$@"}
