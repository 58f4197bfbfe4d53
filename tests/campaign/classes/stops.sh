# Campaign: SIGTERM and SIGINT to every command but train, at random moments.
# SPDX-License-Identifier: Apache-2.0
stops_weight=160

stops_case() {
  local kinds=(generate evaluate report sweep plan inspect bench evaluate_logits help sweep_status)
  local kind=${kinds[$1 % ${#kinds[@]}]} signal ranks=1 longest=1200
  reference 1 precision.compute=fp32 run.steps=4 checkpoint.every=2
  pick TERM INT; signal=$picked
  # A command may finish what it writes; it may not go on for as long as it likes.
  limit=60
  stopped=$case_folder/stopped
  complete=true
  "stops_$kind"
  # What comes before there is anybody to hear it stops nothing.
  appeared "$ranks"
  draw_pause $longest
  find_ranks
  note "$kind, SIG$signal"
  [ -z "$ranks_pids" ] || kill "-$signal" $ranks_pids 2>/dev/null
  ended_soon
  finished
  well_behaved "0 75 $((128 + $(kill -l "$signal")))"
  [ "$status" != 0 ] || $complete || wrong "status 0 and incomplete output"
  whole
}
# The limit is for hangs and for what takes no notice, not for the machine's speed.
ended_soon() {
  local i
  for ((i = 0; i < 300; ++i)); do
    kill -0 "$launched" 2>/dev/null || return 0
    sleep 0.05
  done
  lost "goes on 15 s after the signal"
}
whole() { true; }
has_line() { grep -aqE "$1" "$case_folder/out"; }

stops_generate() {
  pick 1 1 2; ranks=$picked
  launch "$ranks" generate "$made/run" --prompt "The licence" --tokens 200000 --temperature 0
  complete=false
}
stops_text() {
  local i
  for i in $(seq 300); do cat LICENSE; done >"$case_folder/text"
}
stops_evaluate() {
  stops_text
  pick 1 1 2; ranks=$picked
  launch "$ranks" evaluate "$made/run" "$case_folder/text"
  complete="has_line loss"
}
stops_evaluate_logits() {
  head -c 60000 <(for i in 1 2 3 4 5 6; do cat LICENSE; done) >"$case_folder/text"
  launch 1 evaluate "$made/run" "$case_folder/text" --logits "$case_folder/logits.h5"
  complete="has_line loss"
  whole() {
    [ ! -e "$case_folder/logits.h5" ] || "$TOOL" hdf5 check "$case_folder/logits.h5" ||
      lost "half a file of logits"
  }
}
stops_report() {
  copy_run "$case_folder/run"
  launch 1 report "$case_folder/run" --output "$case_folder/report.md"
  longest=500
  complete="test -s $case_folder/report.md"
  whole() {
    [ ! -e "$case_folder/report.md" ] || [ -z "$(tail -c 1 "$case_folder/report.md")" ] ||
      lost "half a report"
  }
}
stops_sweep() {
  grid=(--directory "$case_folder/sweep" --grid "run.seed=$(seq -s, 1 400)")
  launch 1 sweep "$deck" "${grid[@]}"
  complete="test -s $case_folder/sweep/sweep.toml"
  whole() {
    run 1 sweep "$deck" "${grid[@]}"
    well_behaved 0
    run 1 sweep --status "$case_folder/sweep/sweep.toml"
    well_behaved 0
    names "400 points"
  }
}
stops_sweep_status() {
  "$TRIREME" sweep "$deck" --directory "$case_folder/sweep" --grid "run.seed=$(seq -s, 1 400)" \
    >/dev/null 2>&1
  launch 1 sweep --status "$case_folder/sweep/sweep.toml"
  complete="has_line 400.points"
}
stops_plan() {
  launch 1 plan "$deck" --ranks 64 parallel.tensor=4 batch.global=16 model.layers=64
  longest=400
  complete="has_line ^memory"
}
stops_inspect() {
  pick "" --verify
  launch 1 inspect "$made/run" $picked
  longest=400
  complete="has_line ^mesh"
}
stops_bench() {
  pick 1 1 2; ranks=$picked
  pick "" "$deck"
  launch "$ranks" bench $picked
  complete=false
  longest=3000
  complete=true
}
stops_help() {
  pick "help deck" "help schema" "help man" --version
  launch 1 $picked
  longest=400
  complete="test -s $case_folder/out"
}
