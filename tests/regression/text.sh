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
# says TEXT: in one line, or in one that was wrapped.
says() { done_well && tr -s '\n ' '  ' <"$work/out" | grep -q -- "$1"; }

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
check "a missing tokenizer" expect 66 "error: --tokenizer: $work/none: "
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

run 1 tokenize "$work/corpus/a.txt" --tokenizer "$tokenizer" -o "$work/x.h5" --end-token '<|end|>'
check "one document" says "of 1 document, [0-9]* B of text in 1 file,"
rm "$work/x.h5"
run 1 tokenize "$work/corpus/a.txt" --tokenizer "$work/none" -o "$work/x.h5"
check "a tokenizer that is not there" expect 66 "error: --tokenizer: $work/none: "
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

# Several ranks, and a job that goes on: parts of 64 kB are kept when they are whole.
mkdir "$work/many"
for i in 0 1 2 3 4; do
  for line in $(seq 700); do
    echo "{\"text\":\"Line $line of file $i, which says one thing or another to fill its place.\"}"
  done >"$work/many/$i.jsonl"
done
tokenize_many() { # RANKS OUT [OPTION ...]
  local ranks=$1 out=$2
  shift 2
  run "$ranks" tokenize "$work/many" --tokenizer "$tokenizer" -o "$out" --end-token '<|end|>' \
    --threads 1 "$@"
}
tokenize_many 1 "$work/one.h5"
check "many files" done_well
tokenize_many 3 "$work/three.h5"
check "three ranks write the same bytes" same "$work/one.h5" "$work/three.h5"
cp "$work/many/4.jsonl" "$work/whole"
echo '{"text":' >>"$work/many/4.jsonl"
tokenize_many 2 "$work/parts.h5"
check "a broken line in the last file" expect 65 "4.jsonl:701"
check "nothing has the name" [ ! -e "$work/parts.h5" ]
check "whole parts are left" [ "$(ls "$work/parts.h5.parts" | wc -l)" -ge 1 ]
kept=$(ls "$work/parts.h5.parts" | wc -l)
cp "$work/whole" "$work/many/4.jsonl"
tokenize_many 3 "$work/parts.h5"
check "the job goes on" says "$kept of "
check "its bytes are the same" same "$work/one.h5" "$work/parts.h5"
check "parts are removed" [ ! -e "$work/parts.h5.parts" ]
echo '{"text":' >>"$work/many/4.jsonl"
tokenize_many 1 "$work/parts.h5"
for part in "$work"/parts.h5.parts/*; do printf x | dd of="$part" bs=1 seek=99 conv=notrunc; done 2>/dev/null
cp "$work/whole" "$work/many/4.jsonl"
tokenize_many 1 "$work/parts.h5"
check "damaged parts are made again" same "$work/one.h5" "$work/parts.h5"
refuses_parts() { [ "$(grep -c 'already' "$work/out")" = 0 ]; }
check "and not kept" refuses_parts

# Texts of a part each, encoded at once by threads; the second takes longest.
mkdir "$work/texts"
for i in 1 2 3 4 5 6; do
  seq $((i * 1000)) $((i == 2 ? 400000 : i * 1000 + 15000)) | sed 's/$/ lines of words/' >"$work/texts/$i.txt"
done
: >"$work/texts/0.txt"
tokenize_texts() { # RANKS OUT THREADS
  run "$1" tokenize "$work/texts" --tokenizer "$tokenizer" -o "$2" --end-token '<|end|>' --threads "$3"
}
tokenize_texts 1 "$work/texts.h5" 1
check "a text a part" says "6 documents"
for threads in 2 3; do
  tokenize_texts 1 "$work/again.h5" $threads
  check "the same bytes by $threads threads" same "$work/texts.h5" "$work/again.h5"
done
tokenize_texts 2 "$work/again.h5" 2
check "the same bytes by two ranks of two threads" same "$work/texts.h5" "$work/again.h5"
cp "$work/texts/5.txt" "$work/whole"
printf '\377' >>"$work/texts/5.txt"
for threads in 1 3; do
  rm -rf "$work/cut.h5.parts"
  tokenize_texts 1 "$work/cut.h5" $threads
  check "a binary file with $threads threads" expect 65 "5.txt: byte"
  check "parts before it are left, and no other file" [ "$(ls "$work/cut.h5.parts" | wc -l)" = 4 ]
done
kept=$(ls "$work/cut.h5.parts" | grep -c '^part-[0-9a-f]*$')
cp "$work/whole" "$work/texts/5.txt"
tokenize_texts 1 "$work/cut.h5" 2
check "they are not made again" says "$kept of 6 parts were there already"
check "nor are their bytes others" same "$work/texts.h5" "$work/cut.h5"
printf '{"text":1}\n' >"$work/texts/3.jsonl"
printf '\377' >"$work/texts/4.txt"
tokenize_texts 1 "$work/cut.h5" 3
check "of two errors the first is told" expect 65 "3.jsonl:1"

# Other formats, read in place.
tokenize_many 2 "$work/pair" --format megatron
check "Megatron's format" [ -s "$work/pair.bin" -a -s "$work/pair.idx" ]
tokenize_many 1 "$work/named.bin" --format megatron
check "named by one of its files" same "$work/pair.idx" "$work/named.idx"
tokenize_many 2 "$work/llmc.bin" --format llmc
tail -c +1025 "$work/llmc.bin" >"$work/ids"
check "both hold the same tokens" same "$work/pair.bin" "$work/ids"
tokenize_many 1 "$work/gpt" --format llmc
check "llm.c's file without its ending" same "$work/gpt.bin" "$work/llmc.bin"
run 1 inspect "$work/gpt.bin"
check "is known by it" says "llmc: 1 file"
tokenize_many 1 "$work/bare"
check "an HDF5 file without an ending" same "$work/bare" "$work/one.h5"
run 1 inspect "$work/bare"
check "is known by its content" says "3500 documents by the end token"
for name in x.bin x.idx; do
  tokenize_many 1 "$work/$name"
  check "no HDF5 file is named $name" expect 64 "$name: is a name of another format: write --format"
done
tokenize_many 1 "$work/x.h5" --format megatron
check "nor a pair x.h5" expect 64 "x.h5: with --format megatron write OUT"
for name in x.h5 x.idx; do
  tokenize_many 1 "$work/$name" --format llmc
  check "nor llm.c's file $name" expect 64 "$name: with --format llmc write a name that ends in .bin"
done
check "none of them was written" [ "$(ls "$work" | grep -c '^x\.')" = 0 ]
tokenize_many 1 "$work/x.h5" --format parquet
check "an unknown format" expect 64 "must be hdf5, megatron or llmc"
run 2 tokenize - --tokenizer "$tokenizer" -o "$work/x.h5" --end-token '<|end|>'
check "standard input on two ranks" expect 64 "works on one rank"

# Looking at them.
run 1 inspect "$work/one.h5" --tokenizer "$tokenizer" --sequence 64
check "inspect a token file" says "3500 documents by the end token"
check "its first sample" says "Line 1 of file 0"
run 1 inspect "$work/pair.idx"
check "without an end token" says "nothing says which token ends documents"
run 1 inspect "$work/one.h5" --verify
check "digests of a token file" expect 64 "token files have none"

# A tokenizer from text.
run 1 tokenize "$work/many" --train 300 -o "$work/made.json"
check "--train" says "300 tokens"
pipe "$work/text" encode --tokenizer "$work/made.json"
cp "$work/out" "$work/ids"
pipe "$work/ids" decode --tokenizer "$work/made.json"
check "it gives the text again" same "$work/out" "$work/text"
run 1 tokenize "$work/many" --train 256 -o "$work/x.json"
check "too few tokens" expect 64 "--train"
run 1 tokenize "$work/many" --train 300 --tokenizer "$tokenizer" -o "$work/x.json"
check "--train beside --tokenizer" expect 64 "one of the two"
run 2 tokenize "$work/many" --train 300 -o "$work/x.json"
check "--train on two ranks" expect 64 "works on one rank"

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
run 1 generate "$work/run" --tokenizer "$tokenizer" --prompt "Hello world" --tokens 3
check "generate goes on with a text" says "Hello world"
run 1 generate "$work/run" --prompt "Hello world"
check "words need a tokenizer" expect 64 "give --tokenizer"

# Data for evaluate are known by what they are: token files by their names, the rest is text.
printf 'Hello world, hello worlds.\n' >"$work/held-out.txt"
run 1 evaluate "$work/run" "$work/held-out.txt"
check "text needs a tokenizer" expect 64 "held-out.txt is no token file.* give --tokenizer"
run 1 evaluate "$work/run" "$work/held-out.txt" --tokenizer "$work/made.json"
check "evaluate on text" says "text: 1 file"
run 1 evaluate "$work/run" "$work/one.h5"
check "and on tokens" says "tokens: 1 file"

# A blend of all kinds, on the fly and in place, with the tokenizer's digest compared.
learn() { # OPTION ...
  run 2 train "$work/deck.toml" run.directory="$work/blend" data.paths=[] model.vocabulary=900 \
    checkpoint.resume=never "$@"
}
parts="[\"3 tokens $work/one.h5\", \"2 megatron $work/pair\", \"1 llmc $work/llmc.bin\""
learn data.source=blend "data.blend=$parts, \"1 text $work/many/*.jsonl\"]" \
  data.tokenizer="$work/end"
check "a tokenizer that is not there" expect 66 "end"
learn data.source=blend "data.blend=$parts, \"1 text $work/many/*.jsonl\"]" \
  data.tokenizer="$work/made.json"
check "token files of another tokenizer" expect 65 "made by the tokenizer with the digest"
parts="[\"2 megatron $work/pair\", \"1 llmc $work/llmc.bin\""
learn data.source=blend "data.blend=$parts, \"1 text $work/many/*.jsonl\"]" \
  data.tokenizer="$work/made.json"
check "train on a blend" done_well
run 1 evaluate "$work/blend" "$work/held-out.txt"
check "evaluate on other data than the blend's" says "text: 1 file"
rm -r "$work/blend"
packed="data.packing=concatenate parallel.context=2 metrics.validate_every=1"
packed="$packed data.validation_source=tokens data.validation_paths=[\"$work/one.h5\"]"
packed="$packed model.layers=2 model.sequence=64"
learn data.source=tokens "data.paths=[\"$work/one.h5\"]" metrics.validate_sequences=9 $packed
check "documents of their own on two context ranks" done_well
field "$work/blend/metrics.jsonl" loss >"$work/losses"
cp "$work/blend/metrics.jsonl" "$work/two.jsonl"
rm -r "$work/blend"
packed="${packed/context=2/pipeline=2}"
learn data.source=tokens "data.paths=[\"$work/one.h5\"]" metrics.validate_sequences=9 $packed
field "$work/blend/metrics.jsonl" loss >"$work/others"
check "and on two stages the losses are the same" close_values "$work/losses" "$work/others" 1e-5
field "$work/two.jsonl" validation_loss >"$work/losses"
field "$work/blend/metrics.jsonl" validation_loss >"$work/others"
check "so are those of the validation" close_values "$work/losses" "$work/others" 1e-5
rm -r "$work/blend"

# Whole documents, fitted into rows.
fitted="data.packing=best_fit model.layers=2 model.sequence=48 optimizer.schedule.name=constant"
learn data.source=tokens "data.paths=[\"$work/one.h5\"]" $fitted run.steps=4
check "documents fitted into rows" done_well
check "how much of them is padding" says "from 3500 documents, 0 of them cut, [0-9.]* % padding"
field "$work/blend/metrics.jsonl" loss >"$work/losses"
rm -r "$work/blend"
learn data.source=tokens "data.paths=[\"$work/one.h5\"]" $fitted checkpoint.every=2
run 1 train "$work/deck.toml" run.directory="$work/blend" model.vocabulary=900 $fitted run.steps=4 \
  data.source=tokens "data.paths=[\"$work/one.h5\"]"
field "$work/blend/metrics.jsonl" loss >"$work/others"
check "a resume on fewer ranks goes on with the same rows" \
  close_values "$work/losses" "$work/others" 1e-6
rm -r "$work/blend"

# Fill-in-the-middle, with three tokens of the tokenizer.
infill() { # TOKENS
  run 1 inspect "$work/deck.toml" data.source=tokens "data.paths=[\"$work/one.h5\"]" $fitted \
    model.vocabulary=900 data.tokenizer="$tokenizer" data.fim_rate=1 "data.fim_tokens=$1"
}
infill '["!","#","%"]'
check "documents are infilled" says '100.0 % of documents infilled'
check "in the row too" grep -q '^\[0\] {!}.*#.*%' "$work/out"
infill '["!","#","<none>"]'
check "a token that the tokenizer lacks" expect 65 'has no token "<none>"'
learn data.source=llmc "data.paths=[\"$work/llmc.bin\"]" data.packing=best_fit
check "fitting needs to know where documents end" expect 65 "set data.end_token"
learn data.source=llmc "data.paths=[\"$work/llmc.bin\"]" data.packing=concatenate
check "an end token that nobody says" expect 65 "set data.end_token"
# JSON lines that hold no text: what reads them.
no_text() {  # LINE WHAT
  echo "$1" >"$work/other.jsonl"
  learn data.source=text "data.paths=[\"$work/other.jsonl\"]" data.tokenizer="$work/made.json"
  check "not text: $1" expect 65 "other.jsonl:1: has no member \"text\"; $2"
}
chats='a run reads conversations with data.source = "chat"'
no_text '{"messages":[]}' "$chats"
no_text '{"conversations":[]}' "$chats"
no_text '{"instruction":"a","output":"b"}' "$chats"
no_text '{"prompt":"a","completion":"b"}' "$chats"
no_text '{"prompt":"a","chosen":"b","rejected":"c"}' \
  'a run reads pairs of answers with data.source = "preference"'
no_text '{"prompt":"a"}' 'trireme tokenize --field names another one'
learn data.source=text "data.paths=[\"$work/many/0.jsonl\"]" data.tokenizer="$work/made.json" \
  model.vocabulary=299
check "a tokenizer that is too large" expect 65 "more"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
