#!/usr/bin/env bash
# The fault campaign: seeded faults, damages and mutations, and how the program took them.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/campaign/run.sh [OPTION ...]
#   --seed S      what is drawn (default 1); a case depends on seed, class and number only
#   --cases N     in all, shared out by the classes' weights (default 2000)
#   --class NAME  only this class; may be repeated; `--class all` is the default
#   --without NAME  not this class; may be repeated
#   --case K      only number K of the class
#   --jobs J      cases at a time (default: cores)
#   --keep DIR    what failed cases leave goes to DIR
#   --list        classes, and how many cases each would have
# Status 0: nothing was lost and nothing was wrong. README.md says how to read the table.
# CTest gives TRIREME_PROGRAM, TRIREME_MPIEXEC, TRIREME_CAMPAIGN_TOOL and TRIREME_IO_FAULTS;
# by hand they are taken from build/tests.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

seed=1 cases=2000 only='' jobs=$(nproc) keep='' list=0
chosen=() without=()
usage() {
  sed -n 's/^# \{0,1\}//; 5,14p' "$here/run.sh" >&2
  exit 64
}
while [ $# -gt 0 ]; do
  case $1 in
    --list) list=1; shift; continue ;;
    --seed | --cases | --class | --without | --case | --jobs | --keep) [ $# -gt 1 ] || usage ;;
    *) usage ;;
  esac
  case $1 in
    --seed) seed=$2 ;;
    --cases) cases=$2 ;;
    --class) chosen+=("$2") ;;
    --without) without+=("$2") ;;
    --case) only=$2 ;;
    --jobs) jobs=$2 ;;
    --keep) keep=$2 ;;
  esac
  shift 2
done
[[ $seed$cases$jobs$only =~ ^[0-9]+$ ]] || usage

for file in "$here"/classes/*.sh; do . "$file"; done
classes=(signals stops kills io checkpoints links environment decks data shell slurm hangs)

has() { # WORD WORDS...
  local word=$1 other
  shift
  for other in "$@"; do [ "$word" = "$other" ] && return; done
  return 1
}
all=0
for class in "${classes[@]}"; do
  weight=${class}_weight
  all=$((all + ${!weight}))
done
for class in "${chosen[@]}"; do has "$class" all "${classes[@]}" || usage; done
[ ${#chosen[@]} -gt 0 ] && ! has all "${chosen[@]}" && classes=("${chosen[@]}")
for class in "${without[@]}"; do
  for i in "${!classes[@]}"; do [ "${classes[i]}" = "$class" ] && unset "classes[$i]"; done
done
[ -z "$only" ] || [ ${#classes[@]} = 1 ] || usage

# share CLASS: its part of all cases; every class has some. In $shared.
share() {
  local weight=${1}_weight
  shared=$(((${!weight} * cases + all - 1) / all))
}
if [ $list = 1 ]; then
  for class in "${classes[@]}"; do share "$class"; echo "$class $shared"; done
  exit 0
fi

campaign_begin
started=$SECONDS

# What one case has to say goes to $results/CLASS.K: survived, lost, wrong or skipped, and why.
results=$work/results
mkdir -p "$results"

one_case() { # CLASS K
  class=$1 number=$2
  case_begin
  (
    trap - EXIT
    "${class}_case" "$number"
    [ -s "$case_folder/verdict" ] || echo survived >"$case_folder/verdict"
  ) >"$case_folder/talk" 2>&1
  case_end
  [ -s "$case_folder/verdict" ] || echo "wrong the case itself broke off" >"$case_folder/verdict"
  cp "$case_folder/verdict" "$results/$class.$number"
}

# say CLASS K: a failure, its last output, and how to see it again.
say() {
  local verdict
  verdict=$(cat "$case_folder/verdict")
  case $verdict in survived* | skipped*) return ;; esac
  {
    echo "FAILED $1 $2: $verdict"
    [ -s "$case_folder/what" ] && sed 's/^/    what: /' "$case_folder/what"
    { grep -a "trireme: error" "$case_folder/out" | head -n 3; tail -n 3 "$case_folder/out"; } 2>/dev/null |
      cut -c1-240 | sed 's/^/    out:  /'
    echo "    again: tests/campaign/run.sh --seed $seed --class $1 --case $2"
  } >"$case_folder/said"
  cat "$case_folder/said"
  if [ -n "$keep" ]; then
    mkdir -p "$keep" && cp -a "$case_folder" "$keep/$1.$2"
  fi
}

# The table of what was tried; fails when anything was lost or wrong, or nothing tried.
count() { cat "$results/$1".* 2>/dev/null | grep -cE "^($2)"; }
row() { printf '%-12s %7s %9s %6s %6s %8s\n' "$@"; }
table() {
  local totals=(0 0 0 0 0) numbers class i bad
  echo
  row class tried survived lost wrong skipped
  for class in "${classes[@]}"; do
    numbers=("$(count "$class" 'survived|lost|wrong')" "$(count "$class" survived)"
      "$(count "$class" lost)" "$(count "$class" wrong)" "$(count "$class" skipped)")
    row "$class" "${numbers[@]}"
    for i in 0 1 2 3 4; do totals[i]=$((totals[i] + numbers[i])); done
  done
  row all "${totals[@]}"
  bad=$((totals[2] + totals[3]))
  echo "seed $seed, $((SECONDS - started)) s, $jobs at a time; $bad of ${totals[0]} not as they should be"
  [ $bad = 0 ] && [ "${totals[0]}" -gt 0 ]
}
# Also of a campaign that is cut short; a second signal does not cut this short too.
trap 'trap "" INT TERM; table; exit 130' INT TERM

# fewer_than N: waits until fewer cases than that are under way. Daemons that a class began
# are children of this shell too, and nobody waits for those.
running=()
fewer_than() {
  local pid left
  while [ ${#running[@]} -ge "$1" ]; do
    wait -n "${running[@]}" 2>/dev/null
    left=()
    for pid in "${running[@]}"; do kill -0 "$pid" 2>/dev/null && left+=("$pid"); done
    running=("${left[@]}")
  done
}
try() { # CLASS K
  fewer_than "$jobs"
  (
    trap - EXIT
    one_case "$1" "$2"
    say "$1" "$2"
    case_remove
  ) &
  running+=($!)
}

for class in "${classes[@]}"; do
  if declare -F "${class}_begin" >/dev/null; then "${class}_begin"; fi
  share "$class"
  if [ -n "$only" ]; then
    try "$class" "$only"
  else
    for ((number = 0; number < shared; ++number)); do try "$class" "$number"; done
  fi
  if declare -F "${class}_end" >/dev/null; then
    fewer_than 1
    "${class}_end"
  fi
done
fewer_than 1

table
