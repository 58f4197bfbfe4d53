# Campaign: texts that a shell would take for commands, in sweeps and jobs.
# SPDX-License-Identifier: Apache-2.0
# What bash runs, with stand-ins for Slurm's programs, does nothing else.
shell_weight=80

shell_case() {
  local texts=($'x\ntouch PWNED #' 'x; touch PWNED' '$(touch PWNED)' '`touch PWNED`' "x'; touch PWNED; '"
    'x" ; touch PWNED ; "' 'x && touch PWNED' 'x | touch PWNED' '-rf' '--help' '*' '?' '~' '~root' '{a,b}' '!!'
    $'x\r\ntouch PWNED' $'tab\there' 'x  y' ' lead' 'trail ' '\' 'x\' 'x\$(touch PWNED)' '#x' 'x #SBATCH --wrap=y'
    $'x\n#SBATCH --export=NONE\n' '${IFS}touch${IFS}PWNED' '<(touch PWNED)' '>PWNED' '2>PWNED' '&touch PWNED'
    $'\e[31mx' $'x\x01y' 'é€' '%x%A' $'END\nEOF\ntouch PWNED' '[x]' 'x=y' '@x' 'x,y' "it's" '""' "''")
  local text=${texts[$1 % ${#texts[@]}]} folder=$case_folder/f
  mkdir -p "$folder" "$case_folder/bin"
  shell_stand_ins
  note "text $(printf %q "$text")"
  local places=(directory working_directory override job name deck)
  local place=${places[($1 + $1 / ${#texts[@]}) % ${#places[@]}]}
  note "as $place"
  cd "$folder" || wrong "no folder"
  "shell_$place"
  shell_nothing_else
}

# They write down their arguments, and leave with 75 unless they are told another status. Slurm
# answers scripts, which would ask again, that it does not know the job.
shell_stand_ins() {
  local name
  for name in srun scontrol sbatch squeue mpirun mpiexec; do
    cat >"$case_folder/bin/$name" <<END
#!/bin/bash
printf '%s\0' $name "\$@" >>"$case_folder/calls"
[ $name != scontrol ] || echo "no such job"
exit \${STAND_IN_STATUS:-75}
END
    chmod +x "$case_folder/bin/$name"
  done
}
shell_nothing_else() {
  cd "$SOURCE" || wrong "no folder"
  [ -z "$(find "$case_folder" -name 'PWNED*')" ] || lost "a text became a command"
}
# shell_sweep DIRECTORY DECK WORDS...: makes a sweep and runs what it made.
shell_sweep() {
  local directory=$1 deck=$2
  shift 2
  cp -n "$SOURCE/LICENSE" .
  run 1 sweep "$deck" precision.compute=fp32 run.steps=1 optimizer.schedule.warmup=0 "$@" \
    --directory "$directory" --grid run.seed=1,2
  # A text may be refused, if the message says so.
  well_behaved "0 64 65 66 73"
  [ "$status" = 0 ] || return 0
  shell_run "$directory/sweep.sbatch"
  # What it tells to type does what it says, and no more.
  local line
  line=$(sed -n 's/.*\(sbatch --array.*\)/\1/p' "$case_folder/out" | head -n 1)
  : >"$case_folder/calls"
  PATH=$case_folder/bin:$PATH STAND_IN_STATUS=0 timeout 30 bash -c "$line" >/dev/null 2>&1 </dev/null
  local word script=""
  while IFS= read -r -d "" word; do script=$word; done <"$case_folder/calls"
  case $script in
    -*) wrong "sbatch takes the script for an option: $(printf %q "$script")" ;;
  esac
  [ -e "$script" ] || lost "sbatch is told of another script: $(printf %q "$script")"
}
shell_run() {
  case $1 in /*) ;; *) set -- "./$1" ;; esac
  [ -e "$1" ] || lost "there is no $(printf %q "$1")"
  bash -n "$1" 2>/dev/null || lost "the script is no bash"
  : >"$case_folder/calls"
  PATH=$case_folder/bin:$PATH SLURM_ARRAY_TASK_ID=1 SLURM_JOB_ID=9 timeout 30 bash "$1" \
    >"$case_folder/script" 2>&1 </dev/null
  grep -azq '^srun$' "$case_folder/calls" || wrong "the script does not call srun: $(tail -n 1 "$case_folder/script")"
  # The manifest that srun is given is the one that was made.
  local word manifest=''
  while IFS= read -r -d '' word; do
    [ "$manifest" = next ] && { manifest=$word; break; }
    [ "$word" = --manifest ] && manifest=next
  done <"$case_folder/calls"
  [ -e "$manifest" ] || lost "srun is given another manifest: $(printf %q "$manifest")"
}
shell_directory() { shell_sweep "$text" "$deck"; }
shell_working_directory() {
  mkdir -p -- "./$text" 2>/dev/null && cd -- "./$text" || return 0
  shell_sweep sweep "$deck"
}
shell_override() { shell_sweep sweep "$deck" "run.name=\"${text//[\"\\$'\n\r\t\e\x01']/_}\""; }
shell_name() { shell_sweep "sweep $text" "$deck"; }
shell_deck() {
  cp "$deck" "./deck $RANDOM.toml" 2>/dev/null
  cp "$deck" "./${text//\//_}.toml" 2>/dev/null || return 0
  shell_sweep sweep "./${text//\//_}.toml"
}
# The scripts of jobs/: what they are given reaches the program as it is.
shell_job() {
  local script
  pick train.sbatch multi-node-cpu.sbatch multi-node-gpu.sbatch
  script=$SOURCE/jobs/$picked
  note "$picked"
  PATH=$case_folder/bin:$PATH STAND_IN_STATUS=0 SLURM_JOB_ID=9 SLURM_CPUS_PER_TASK=1 TRIREME="./$text" \
    timeout 30 bash "$script" "./$text" "run.name=$text" "$text" >"$case_folder/out" 2>&1 </dev/null
  local word found=0
  while IFS= read -r -d '' word; do
    [ "$word" = "./$text" ] || [ "$word" = "run.name=$text" ] || [ "$word" = "$text" ] && found=$((found + 1))
  done <"$case_folder/calls"
  [ $found = 4 ] || wrong "$found of 4 words reach the program as they are: $(tail -n 1 "$case_folder/out")"
}
