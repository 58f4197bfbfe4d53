#!/usr/bin/env bash
# All ordered pairs of the meshes of checkpoint_meshes.txt.
# SPDX-License-Identifier: Apache-2.0
# Each mesh saves, then each loads what every one saved: checkpoint_meshes.sh PROGRAM
# MPIEXEC TABLE.
set -u
program=$1 mpiexec=$2 table=$3
TRIREME_MESH_FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/trireme-meshes.XXXXXX")
export TRIREME_MESH_FOLDER
trap 'rm -rf "$TRIREME_MESH_FOLDER"' EXIT
failed=0
for phase in write read; do
  line=0
  while read -r ranks model _; do
    case $ranks in '#'* | '') continue ;; esac
    TRIREME_MESH_PHASE=$phase TRIREME_MESH_LINE=$line timeout 300 "$mpiexec" -n "$ranks" \
      "$program" >"$TRIREME_MESH_FOLDER/out" 2>&1 </dev/null || {
      echo "FAILED: $phase, line $line: $ranks ranks of $model"
      head -60 "$TRIREME_MESH_FOLDER/out"
      failed=$((failed + 1))
    }
    line=$((line + 1))
  done <"$table"
  [ "$failed" = 0 ] || break
done
echo "$((line * line)) ordered pairs of $line meshes, $failed programs failed"
[ "$failed" = 0 ] && [ "$line" -ge 12 ]
