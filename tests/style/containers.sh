#!/usr/bin/env bash
# The Dockerfile and the Apptainer definition are made of the packages of cmake/setup.sh.
# SPDX-License-Identifier: Apache-2.0
# Usage: containers.sh SOURCES. Parses both; nothing is built here.
set -u
cd "$1" || exit 1
failed=0
fail() {
  echo "$1"
  failed=1
}

for kind in build run; do
  packages=$(cmake/setup.sh --packages "$kind") || fail "setup.sh --packages $kind failed"
  [ "$(wc -w <<<"$packages")" -ge 8 ] || fail "few packages to $kind: $packages"
  for name in $packages; do
    [[ $name =~ ^[a-z0-9][a-z0-9.+-]*$ ]] || fail "no package's name: $name"
  done
done
cmake/setup.sh --packages none >/dev/null 2>&1 && fail "--packages none is no error"

for file in containers/Dockerfile containers/trireme.def; do
  grep -q 'cmake/setup.sh release trireme' "$file" || fail "$file: builds by other means"
  grep -qF '/cmake/setup.sh --packages run)' "$file" || fail "$file: has packages of its own"
  # No package is named beside the list.
  for name in $(cmake/setup.sh --packages build) $(cmake/setup.sh --packages run); do
    grep -E 'apt-get|^ *lib' "$file" | grep -qE "(^|[ =])$name( |\$)" && fail "$file: names $name itself"
  done
done

# Instructions of a Dockerfile, with lines that end in a backslash joined.
joined=$(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' containers/Dockerfile | grep -vE '^ *(#|$)')
while IFS= read -r line; do
  [[ $line =~ ^(FROM|COPY|WORKDIR|RUN|ENV|ENTRYPOINT|CMD)\  ]] || fail "Dockerfile: $line"
  case $line in
    RUN*) bash -n -c "${line#RUN }" || fail "Dockerfile: no shell: $line" ;;
    'COPY --from=build'*) : ;;
  esac
done <<<"$joined"

# Sections of a definition; those that are shell are read by it.
awk '/^%/ { name = $1; next } name ~ /^%(post|environment|runscript|test)$/ && !/^Bootstrap:|^From:|^Stage:/' \
  containers/trireme.def >"${TMPDIR:-/tmp}/trireme-def.$$"
bash -n "${TMPDIR:-/tmp}/trireme-def.$$" || fail "trireme.def: its shell"
rm -f "${TMPDIR:-/tmp}/trireme-def.$$"
for section in $(grep -oE '^%[a-z]+' containers/trireme.def); do
  case $section in
    %files | %post | %environment | %runscript | %test) ;;
    *) fail "trireme.def: no section $section" ;;
  esac
done
[ "$(grep -c '^Bootstrap:' containers/trireme.def)" = "$(grep -c '^Stage:' containers/trireme.def)" ] ||
  fail "trireme.def: a stage without a name"
[ "$failed" = 0 ]
