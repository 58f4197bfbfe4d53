#!/usr/bin/env bash
# What the linked program says of itself is what hardening promises.
# SPDX-License-Identifier: Apache-2.0
# It is position independent, nothing is writable and executable at once, it is relocated
# before it starts, calls and stacks are checked.
# Usage: hardened.sh PROGRAM
set -u
program=$1
if ! command -v readelf >/dev/null; then
  echo "skipped: readelf is not installed"
  exit 77
fi
failed=0
# check WORDS COMMAND...
check() {
  local words=$1
  shift
  "$@" || { echo "FAILED: $words"; failed=1; }
}
has() { grep -qE -- "$1" <<<"$2"; }
lacks() { ! has "$1" "$2"; }

header=$(readelf -hW "$program") || exit 1
segments=$(readelf -lW "$program")
dynamic=$(readelf -dW "$program")
symbols=$(readelf -W --dyn-syms "$program")

check "the program is position independent (PIE)" has 'Type: +DYN' "$header"
check "it is a program, not a library" has 'FLAGS_1.*PIE' "$dynamic"
check "what is relocated is read-only afterwards (RELRO)" has 'GNU_RELRO' "$segments"
check "and is relocated at the start (BIND_NOW)" has '(BIND_NOW|FLAGS_1.*NOW)' "$dynamic"
check "no relocation writes into code (TEXTREL)" lacks 'TEXTREL' "$dynamic"
check "the stack is not executable" has 'GNU_STACK .* RW +0x' "$segments"
check "no segment is writable and executable" lacks '(LOAD|TLS) .* RWE ' "$segments"
check "stacks are protected" has '__stack_chk_fail' "$symbols"
if has 'GLIBC_' "$symbols"; then
  check "calls are checked (_FORTIFY_SOURCE)" has '__[a-z0-9_]+_chk@' "$symbols"
fi
[ $failed = 0 ] && echo "$program is hardened"
exit $failed
