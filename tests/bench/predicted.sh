#!/bin/bash
# A table and a picture of steps as trireme plan predicts them and as bench measures them.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: predicted.sh PROGRAM SOURCE FOLDER [FIRST [LAST]]   lines of predicted.txt, from 1
#   A machine file for each number of ranks is measured first (FOLDER/machine-N.toml), so that nothing
#   that the table compares has been seen before. One thread a rank; the median of 13 steps of each
#   deck. Writes FOLDER/predicted.md and FOLDER/predicted.svg. Takes five minutes on 2 cores.
set -uo pipefail
program=$(realpath "${1:?usage: predicted.sh PROGRAM SOURCE FOLDER [FIRST [LAST]]}")
source=$(realpath "${2:?usage: predicted.sh PROGRAM SOURCE FOLDER}")
folder=${3:?usage: predicted.sh PROGRAM SOURCE FOLDER}
first=${4:-1}
last=${5:-1000}
export OMP_NUM_THREADS=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
if [ "$(id -u)" = 0 ]; then  # Open MPI refuses root unless told twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mkdir -p "$folder"
cd "$folder" || exit 73

# decks COMMAND: calls COMMAND RANKS DECK OVERRIDES... for each line.
decks() {
  local line=0 ranks deck overrides more
  while read -r ranks deck overrides; do
    [[ $ranks == \#* || -z $ranks ]] && continue
    line=$((line + 1))
    ((line < first || line > last)) && continue
    read -ra more <<<"$overrides"
    "$1" "$ranks" "$source/inputs/$deck" "${more[@]}" </dev/null
  done <"$source/tests/bench/predicted.txt"
}
measure_machine() {
  [ -f "machine-$1.toml" ] || mpirun -n "$1" "$program" bench --machine "machine-$1.toml" >&2
}
# Milliseconds of a step as planned.
planned() {
  local ranks=$1 deck=$2
  shift 2
  "$program" plan "$deck" --ranks "$ranks" --machine "machine-$ranks.toml" "$@" |
    sed -n 's/^ *step  *\([0-9.]*\) \(ms\|s\).*/\1 \2/p' |
    awk 'NR == 1 { print $2 == "s" ? $1 * 1000 : $1 }'
}
# Milliseconds of the median step.
measured() {
  local ranks=$1 deck=$2
  shift 2
  mpirun -n "$ranks" "$program" bench "$deck" --quick --steps 15 "$@" 2>/dev/null |
    awk '$1 == "step" && $2 > 2 { print $3 }' | sort -g |
    awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}
row() {
  local of=("${@:2}")
  of[0]=$(basename "$2")
  echo "$1 $(planned "$@") $(measured "$@") ${of[*]}"
}

decks measure_machine
decks row >rows.txt

{
  printf '| Deck | Ranks | Predicted, ms | Measured, ms | |\n| --- | --- | --- | --- | --- |\n'
  awk '{ name = $4; for (i = 5; i <= NF; i++) name = name " " $i
         printf "| %s | %s | %.1f | %.1f | %+.0f %% |\n", name, $1, $2, $3, 100 * ($2 / $3 - 1) }' rows.txt
  awk '{ e = $2 / $3 - 1; print e < 0 ? -e : e }' rows.txt | sort -g |
    awk '{ all[NR] = $1; near += $1 <= 0.2 }
         END { printf "\n%d decks: median error %.1f %%, 90 %% within %.1f %%, %.0f %% within 20 %%\n",
                 NR, 100 * all[int((NR + 1) / 2)], 100 * all[int(0.9 * NR + 0.999)], 100 * near / NR }'
} | tee predicted.md
awk -f "$source/tests/bench/predicted_picture.awk" rows.txt >predicted.svg
