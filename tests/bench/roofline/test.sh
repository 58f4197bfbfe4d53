#!/bin/bash
# What roofline says of kernels whose code is known: sample/sample.cu.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: test.sh ROOFLINE SOURCE
set -uo pipefail
roofline=$1
here=$2/tests/bench/roofline
tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
cp "$here/gpus.txt" "$here/decks.txt" "$tables/"
failed=0

# expect STATUS TEXT ARGUMENTS...: runs roofline on the table that standard input gives.
expect() {
  local status=$1 text=$2 got=0 output
  shift 2
  cat >"$tables/kernels.txt"
  output=$("$roofline" "$@" 2>&1) || got=$?
  if [ $got -ne "$status" ] || ! grep -qF -- "$text" <<<"$output"; then
    echo "expected status $status and '$text' of $*, got $got:" >&2
    echo "$output" >&2
    failed=1
  fi
}

for architecture in sm_80 sm_90a sm_100a; do
  cubin=$here/sample/sample.$architecture.cubin
  # Columns: threads, shared bytes, wide stores, bytes and moved bytes an element.
  others=$'- copies_narrowly<*>\n- keeps_in_memory'
  wide="256 0 1 8 8 copies_widely"$'\n'"$others"
  expect 0 "1 hot kernels checked, 0 wrong" "$tables" "$2/inputs" "$cubin" <<<"$wide"
  expect 0 "predicted: 64 of 64 warps, 8 B and" "$tables" "$2/inputs" "$cubin" <<<"$wide"
  expect 0 "LDG 16 B 1 of 1, STG 16 B 1 of 1" "$tables" "$2/inputs" "$cubin" <<<"$wide"
  expect 1 "copies_narrowly<4>: 0 stores of 16 bytes, kernels.txt expects 1" \
    --check "$tables" "$2/inputs" "$cubin" <<<"256 0 1 8 8 copies_narrowly<*>"$'\n- *'
  expect 1 "keeps_in_memory: 4 bytes stored to local memory, 4 loaded" \
    --check "$tables" "$2/inputs" "$cubin" <<<"256 0 0 0 0 keeps_in_memory"$'\n- *'
  expect 1 "keeps_in_memory: kernels.txt has no row for it" \
    --check "$tables" "$2/inputs" "$cubin" <<<"256 0 0 0 0 copies_*"
  expect 1 "names 'absent', but there is no such kernel" \
    --check "$tables" "$2/inputs" "$cubin" <<<"$wide"$'\n'"256 0 0 0 0 absent"
done
head -c 1000 "$cubin" >"$tables/short.cubin"
expect 65 "is cut short" --check "$tables" "$2/inputs" "$tables/short.cubin" <<<"$wide"
expect 65 "is no ELF file" --check "$tables" "$2/inputs" "$here/gpus.txt" <<<"$wide"
expect 66 "cannot be read" --check "$tables" "$2/inputs" "$tables/none" <<<"$wide"
expect 65 "kernels.txt:1: write the columns" --check "$tables" "$2/inputs" "$cubin" \
  <<<"256 copies_widely"
expect 64 "usage: roofline" --check "$tables" <<<"$wide"
exit $failed
