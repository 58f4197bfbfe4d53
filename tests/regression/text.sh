#!/bin/bash
# Tokenizers on the command line: encode, decode, tokenize, and what they refuse.
# SPDX-License-Identifier: Apache-2.0
source "$(dirname "$0")/lib.sh"

tokenizer=$SOURCE/tests/reference/tokenizers/llama3.json
printf 'Hello world\n\nna\303\257ve \360\237\230\200\n' >"$work/text"

# pipe INPUT ARGS...: as run, of one rank, with a file as standard input.
pipe() {
  local input=$1
  shift
  timeout 600 "$TRIREME" "$@" <"$input" >"$work/out" 2>&1
  status=$?
}
same() { cmp "$1" "$2"; }
done_well() { [ "$status" = 0 ]; }

pipe "$work/text" encode --tokenizer "$tokenizer"
check "encode" done_well
cp "$work/out" "$work/ids"
check "an array a line" [ "$(wc -l <"$work/ids")" = 3 ]
check "special tokens are added" [ "$(grep -c '^\[0' "$work/ids")" = 3 ]
pipe "$work/ids" decode --tokenizer "$tokenizer" --skip-special-tokens
check "decode gives the text again" same "$work/out" "$work/text"
pipe "$work/text" encode --tokenizer "$tokenizer" --no-special-tokens
check "without special tokens" [ "$(sed -n 2p "$work/out")" = "[]" ]
echo '"a\nb"' >"$work/json"
pipe "$work/json" encode --tokenizer "$tokenizer" --json
cp "$work/out" "$work/ids"
pipe "$work/ids" decode --tokenizer "$tokenizer" --json --skip-special-tokens
check "JSON strings and back" same "$work/out" "$work/json"

pipe "$work/text" encode
check "no tokenizer" expect 64 "tokenizer is missing"
pipe "$work/text" encode --tokenizer "$work/none"
check "a missing tokenizer" expect 66 "none"
echo '{"model":{"type":"Magic"}}' >"$work/bad.json"
pipe "$work/text" encode --tokenizer "$work/bad.json"
check "an unknown model" expect 65 "Magic"
printf '"a"\n[1\n' >"$work/json"
pipe "$work/json" encode --tokenizer "$tokenizer" --json
check "a broken line is named" expect 65 "standard input:2"
echo '[99999]' >"$work/ids"
pipe "$work/ids" decode --tokenizer "$tokenizer"
check "an id beyond the vocabulary" expect 65 "no token 99999"

# Token files.
mkdir "$work/corpus"
printf '{"text":"One two."}\n\n{"text":"Three"}\n' >"$work/corpus/b.jsonl"
cp "$work/text" "$work/corpus/a.txt"
gzip -c "$work/corpus/b.jsonl" >"$work/corpus/c.jsonl.gz"
run 1 tokenize "$work/corpus" --tokenizer "$tokenizer" -o "$work/out.h5" --end-token '<|end|>'
check "tokenize" done_well
check "every document counts" grep -q 'of 5 documents' "$work/out"
run 1 tokenize "$work/corpus/a.txt" "$work/corpus/b.jsonl" "$work/corpus/b.jsonl" \
  --tokenizer "$tokenizer" -o "$work/again.h5" --threads 1 --end-token '<|end|>'
check "gzip, folders and threads change nothing" same "$work/out.h5" "$work/again.h5"
check "nothing else is left" [ "$(ls "$work" | grep -c 'tmp-\|spill')" = 0 ]

run 1 tokenize "$work/corpus/a.txt" --tokenizer "$tokenizer" -o "$work/x.h5" \
  --end-token '<none>'
check "an end token that is none" expect 64 "no such token"
run 1 tokenize "$work/corpus/a.txt" --tokenizer "$tokenizer" -o "$work/x.h5"
check "an end token that must be given" expect 64 "give --end-token"
echo '{"text":1}' >"$work/bad.jsonl"
run 1 tokenize "$work/bad.jsonl" --tokenizer "$tokenizer" -o "$work/x.h5" --end-token '<|end|>'
check "a field that is no text" expect 65 "bad.jsonl:1"
printf 'a\0b' >"$work/binary"
run 1 tokenize "$work/binary" --tokenizer "$tokenizer" -o "$work/x.h5" --end-token '<|end|>'
check "a binary file" expect 65 "byte 1 is no UTF-8 text"
gzip -c "$work/corpus/a.txt" | head -c 20 >"$work/cut.gz"
run 1 tokenize "$work/cut.gz" --tokenizer "$tokenizer" -o "$work/x.h5" --end-token '<|end|>'
check "gzip data that are cut off" expect 65 "end too early"
run 1 tokenize "$work/none.txt" --tokenizer "$tokenizer" -o "$work/x.h5" --end-token '<|end|>'
check "a missing file" expect 66 "none.txt"
run 1 tokenize "$work/text" --tokenizer "$tokenizer" -o "$work/none/x.h5" --end-token '<|end|>'
check "a folder that is not there" expect 73 "none"
check "what failed left no file" [ "$(ls "$work" | grep -c '^x.h5')" = 0 ]

# A model learns from the token file.
cat >"$work/deck.toml" <<EOF
[run]
directory = "$work/run"
steps = 2
[model]
architecture = "llama"
layers = 1
hidden = 32
heads = 2
vocabulary = 900
sequence = 4
[data]
source = "tokens"
paths = ["$work/out.h5"]
[batch]
global = 2
EOF
run 1 train "$work/deck.toml"
check "train on it" done_well

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
