# Campaign: signals to a run at random moments, one by one and in storms.
# SPDX-License-Identifier: Apache-2.0
signals_weight=160

# Products wide enough that most moments lie in one.
signals_case() {
  local kinds=(usr1 usr2_storm term usr1_storm mixed_storm int term_storm outsider int_twice)
  local kind=${kinds[$1 % ${#kinds[@]}]} ranks compute words directory=$case_folder/run pause
  pick 1 1 2 2 4; ranks=$picked
  pick fp32 fp32 bf16 fp64; compute=$picked
  pick 1 2; export OMP_NUM_THREADS=$picked
  [ "$ranks" = 4 ] && export OMP_NUM_THREADS=1
  words="precision.compute=$compute run.steps=6 model.hidden=192 model.feed_forward=256 model.layers=1
    batch.global=8 checkpoint.every=3 checkpoint.keep=2"
  reference "$ranks" $words
  note "$kind, $OMP_NUM_THREADS threads"
  pause=$(cat "$made/milliseconds")
  launch "$ranks" train "$deck" run.directory="$directory" $words
  ready "$ranks" || true
  draw 3
  [ "$drawn" = 0 ] || stepped "$directory" 1
  draw_pause $((pause / 2 + 1))
  find_ranks
  "signals_$kind"
  finished
  well_behaved "$allowed"
  goes_on "$ranks" "$directory" $words
}
send() { kill "-$1" $ranks_pids 2>/dev/null; }
storm() { [ -z "$ranks_pids" ] || "$TOOL" storm "$seed$number" "$@" $ranks_pids; }

signals_usr1() { send USR1; allowed="0 75"; }
signals_term() { send TERM; allowed="0 75"; }
signals_int() { send INT; allowed="0 75"; }
signals_int_twice() {
  send INT
  draw_pause 300
  send INT
  allowed="0 75 130"
}
signals_usr1_storm() { storm 20000 200 USR1; allowed="0 75"; }
signals_term_storm() { storm 20000 200 TERM; allowed="0 75"; }
signals_usr2_storm() { storm 20000 1000 USR2; allowed=0; }
signals_mixed_storm() { storm 20000 500 USR2 CHLD WINCH URG CONT; allowed=0; }
# What the program has no use for may end it, as it ends any program.
signals_outsider() {
  pick HUP PROF ALRM CHLD PIPE
  note "SIG$picked"
  send "$picked"
  allowed="0 75 $((128 + $(kill -l "$picked")))"
}
