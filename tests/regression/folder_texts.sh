#!/usr/bin/env bash
# Greedy texts of 50 tokens with a cache, as transformers continues the same prompts.
# SPDX-License-Identifier: Apache-2.0
# Of every family (tests/reference/make_folders.py, whose models get as many positions).
. "$(dirname "$0")/folder_lib.sh"

count=0
for text in */config.json; do
  name=${text%/*}
  [ -f "$name.txt" ] || continue
  count=$((count + 1))
  read -r -a ids <"$name.txt"
  prompt=$(IFS=,; echo "${ids[*]:0:5}")
  rm -rf "$work/model"
  cp -r "$name" "$work/model"
  sed -i 's/"max_position_embeddings": 16/"max_position_embeddings": 64/' "$work/model/config.json"
  run 1 convert "$work/model" "$work/$name.ck" --dtype fp32
  run 1 generate "$work/$name.ck" --prompt-tokens "$prompt" --tokens 50 --temperature 0
  tail -n 1 "$work/out" >"$work/text"
  check "$name continues its prompt as transformers does" cmp "$work/text" "$name.txt"
  # In a batch, beside shorter and longer prompts.
  for length in 3 5 9; do
    ids_of=$(IFS=,; echo "${ids[*]:0:length}")
    echo "{\"prompt_tokens\": [$ids_of], \"tokens\": 50, \"temperature\": 0}"
  done >"$work/prompts.jsonl"
  run 1 generate "$work/$name.ck" --prompts "$work/prompts.jsonl" -o "$work/$name.jsonl" --chunk 4
  sed -n '2s/.*"tokens":\[\([0-9,]*\)\].*/\1/p' "$work/$name.jsonl" | tr , ' ' >"$work/made"
  check "$name does so in a batch" cmp <(echo "${ids[*]:0:5} $(cat "$work/made")") "$name.txt"
done
check "of many models" test "$count" -ge 33
finish
