#!/usr/bin/env bash
# Trains a small model in each recipe, from several seeds, and prints the table of losses.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/bench/recipes.sh PROGRAM TEXT OUT [RECIPE ...]
#   PROGRAM  the built trireme
#   TEXT     a text of about 1 MB; its last tenth is held back for validation
#   OUT      a folder for the runs; a run that is there and complete is not repeated
#   RECIPE   names of precision.recipe (default: all)
# Environment: SEEDS="1 2 3", RANKS=1, and OVERRIDES for more of the deck's keys.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4,10s/^# \?//p' "$0" >&2; exit 64; }
program=$1 text=$2 out=$3
shift 3
recipes=("$@")
[ ${#recipes[@]} -gt 0 ] || recipes=(fp32 bf16 bf16_pure bf16_autocast bf16_fp32_sum
  bf16_no_sum fp16 te_delayed te_current te_blocks mxfp8 ms_amp_o1 ms_amp_o2 ms_amp_o3
  fp8_lm deepseek_v3 nanotron_fp8)
seeds=${SEEDS:-1 2 3}
deck=$(dirname "$0")/recipes.toml

mkdir -p "$out"
bytes=$(stat -c %s "$text")
head -c $((bytes * 9 / 10)) "$text" >"$out/training.txt"
tail -c $((bytes - bytes * 9 / 10)) "$text" >"$out/validation.txt"

compute_of() {
  case $1 in
    fp64 | fp32 | fp16) echo "$1" ;;
    bf16*) echo bf16 ;;
    *) echo fp8 ;;
  esac
}

# The last value of a key in a run's metrics; empty if there is none.
last() { grep -o "\"$2\":[^,}]*" "$1/metrics.jsonl" 2>/dev/null | tail -1 | cut -d: -f2 || true; }

for recipe in "${recipes[@]}"; do
  for seed in $seeds; do
    run=$out/$recipe-$seed
    [ -z "$(last "$run" validation_loss)" ] || continue
    mpirun -n "${RANKS:-1}" "$program" train "$deck" run.directory="$run" run.seed="$seed" \
      precision.compute="$(compute_of "$recipe")" precision.recipe="$recipe" \
      "data.paths=[\"$out/training.txt\"]" "data.validation_paths=[\"$out/validation.txt\"]" \
      ${OVERRIDES:-} >"$run.log" 2>&1 || echo "$recipe, seed $seed: status $?, see $run.log" >&2
  done
done

# Loss against that of bf16 from the same seed, in percent.
printf '| recipe |'; for seed in $seeds; do printf ' seed %s |' "$seed"; done
printf ' mean | mean against bf16 |\n| --- |'
for seed in $seeds; do printf ' --- |'; done
printf ' --- | --- |\n'
for recipe in "${recipes[@]}"; do
  for seed in $seeds; do
    echo "$(last "$out/$recipe-$seed" validation_loss) $(last "$out/bf16-$seed" validation_loss)"
  done | awk -v name="$recipe" '
    NF == 2 { n++; sum += $1; base += $2 }
    { cells = cells sprintf(" %s |", NF ? sprintf("%.4f", $1) : "-") }
    END {
      printf "| %s |%s", name, cells
      if (n) printf " %.4f | %+.2f %% |\n", sum / n, 100 * (sum / base - 1)
      else printf " - | - |\n"
    }'
done
