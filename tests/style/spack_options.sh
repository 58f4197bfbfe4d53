#!/usr/bin/env bash
# The Spack package gives each option that CMake knows, and no other.
# SPDX-License-Identifier: Apache-2.0
# Usage: spack_options.sh SOURCE
set -u
cd "$1" || exit 1
package=spack/packages/trireme/package.py
options='TRIREME_[A-Z_]+|BUILD_TESTING|CMAKE_CUDA_ARCHITECTURES'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# option(NAME ...), and set(NAME ... CACHE TYPE ...), which may go over several lines
cat CMakeLists.txt cmake/*.cmake | sed 's/#.*//' | tr '\n' ' ' |
  grep -oE "option\(($options)|set\(($options) [^)]*CACHE (STRING|BOOL|PATH|FILEPATH)" |
  grep -oE "$options" | sort -u >"$work/cmake"
grep -oE "define(_from_variant)?\(\"[A-Za-z_]+\"" $package | cut -d'"' -f2 | sort -u >"$work/spack"

failed=0
fail() { echo "FAILED: $*"; failed=1; }
[ "$(wc -l <"$work/cmake")" -ge 8 ] || fail "CMake's options were not found: $(cat "$work/cmake")"
for name in $(comm -23 "$work/cmake" "$work/spack"); do
  fail "$name is an option of the build, but $package does not give it"
done
for name in $(comm -13 "$work/cmake" "$work/spack"); do
  fail "$package gives $name, which is no option of the build"
done
for variant in cuda nccl openmp tests; do
  [ $variant = cuda ] || grep -q "variant(\"$variant\"" $package || fail "no variant $variant"
  grep -qE "[+~]$variant|\"$variant\"" $package || fail "variant $variant is not used"
done
for file in $(grep -oE 'share/trireme/[a-z/_.-]+' $package); do
  [ -e "${file#share/trireme/}" ] || fail "$package expects $file, which is not installed"
done
[ -f spack/repo.yaml ] || fail "spack/repo.yaml is missing"
later=spack/spack_repo/trireme
grep -q 'api: v2' $later/repo.yaml || fail "$later/repo.yaml names no api of packages"
[ $later/packages/trireme/package.py -ef $package ] || fail "$later has other packages"
# Spack 1.x has the directives of build systems elsewhere than in spack.package.
for name in CMakePackage CudaPackage generator; do
  ! grep -qE "\b$name\b" <(grep -v import $package) ||
    grep -qE "^    from spack_repo\.builtin\..* import .*\b$name\b" $package ||
    fail "$package uses $name, which Spack 1.x has to import"
done
if command -v python3 >/dev/null; then
  for file in spack/packages/*/package.py; do
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file" ||
      fail "$file is no Python"
  done
fi
[ $failed = 0 ] && echo "$(wc -l <"$work/spack") options agree"
exit $failed
