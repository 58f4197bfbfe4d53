#!/bin/bash
# Steps that trireme plan predicts beside steps that trireme bench measures.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: predicted.sh PROGRAM SOURCE MACHINE.toml [FIRST [LAST]]   lines of predicted.txt, from 1
set -uo pipefail
program=$1
source=$2
machine=$3
first=${4:-1}
last=${5:-1000}
printf '| Deck | Ranks | Predicted | Fastest | Median |\n| --- | --- | --- | --- | --- |\n'
line=0
while read -r ranks deck overrides; do
  [[ $ranks == \#* || -z $ranks ]] && continue
  line=$((line + 1))
  ((line < first || line > last)) && continue
  read -ra more <<<"$overrides"
  planned=$("$program" plan "$source/inputs/$deck" --ranks "$ranks" --machine "$machine" \
    "${more[@]}" </dev/null | awk '$1 == "step" { sub(/:.*/, ""); sub(/^step */, ""); print }')
  measured=$(mpirun -n "$ranks" "$program" bench "$source/inputs/$deck" --quick --steps 15 \
    run.threads=1 "${more[@]}" </dev/null 2>/dev/null | awk '$1 == "step" { print $3 }' | sort -n |
    awk '{ all[NR] = $1 } END { printf "%s ms | %s ms", all[1], all[int((NR + 1) / 2)] }')
  echo "| $deck $overrides | $ranks | $planned | $measured |"
done <"$source/tests/bench/predicted.txt"
