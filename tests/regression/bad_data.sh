#!/bin/bash
# Bad input of every kind that text and data bring: one message that names it and the fix.
# SPDX-License-Identifier: Apache-2.0
# A case is: bad NAME STATUS 'file and place' 'fix' COMMAND...; the words are patterns.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
gpt2=$SOURCE/tests/reference/tokenizers/llama3.json
cases=0

# Beside the message: nothing is left at out* that could be taken for whole.
bad() {
  local name=$1 wanted=$2 place=$3 fix=$4
  shift 4
  cases=$((cases + 1))
  rm -rf out out.h5 out.json out.bin out.idx *.parts
  timeout 60 "$@" >"$work/out.log" 2>&1 </dev/null
  status=$?
  cp "$work/out.log" "$work/out"
  [[ $status == $wanted ]] && wanted=$status  # a pattern
  check "$name" expect "$wanted" "$place"
  check "$name: the fix" grep -q -- "$fix" "$work/out.log"
  check "$name: nothing whole" nothing_whole
  [ -z "${SHOW_CASES:-}" ] || grep 'error:' "$work/out.log" | cut -c1-300
  rm -f "$work/out"
}
nothing_whole() { [ ! -e out.h5 ] && [ ! -e out.json ] && [ ! -e out.bin ] && [ ! -e out.idx ]; }
tokenize() { bad "$1" "$2" "$3" "$4" "$TRIREME" tokenize "${@:5}" --tokenizer "$gpt2" --end-token '<|end|>' -o out.h5; }
tokenizer() { bad "$1" "$2" "$3" "$4" "$TRIREME" tokenize good.txt --tokenizer "$5" -o out.h5 "${@:6}"; }
lines() { bad "$1" "$2" "$3" "$4" sh -c "\"$TRIREME\" $6 --tokenizer \"$gpt2\" <$5"; }
deck() {
  bad "$1" "$2" "$3" "$4" "$TRIREME" train "$SOURCE/tests/regression/tiny.toml" \
    run.directory="$work/run" run.steps=4 checkpoint.at_end=false "${@:5}"
}

# Text and JSON lines.
seq 2000 >good.txt
echo '{"text":"one"}' >good.jsonl
cp good.jsonl broken.jsonl; printf '{"text":"two"\n{"text":"three"}\n' >>broken.jsonl
cp good.jsonl cut.jsonl; printf '{"text":"tw' >>cut.jsonl
cp good.jsonl list.jsonl; echo '["two"]' >>list.jsonl
cp good.jsonl other.jsonl; echo '{"txt":"two"}' >>other.jsonl
cp good.jsonl number.jsonl; echo '{"text":2}' >>number.jsonl
cp good.jsonl bytes.jsonl; printf '{"text":"\xff"}\n' >>bytes.jsonl
cp good.jsonl half.jsonl; printf '{"text":"\\ud83d"}\n' >>half.jsonl
printf 'a\0b' >zero.txt
printf '\xff\xfea\0b\0' >utf16.txt
printf 'caf\xe9\n' >latin.txt
gzip -c good.txt | head -c 900 >cut.txt.gz
gzip -c good.txt >bad.txt.gz; printf 'garbage here' | dd of=bad.txt.gz bs=1 seek=600 conv=notrunc status=none
: >empty.txt
mkdir nothing
tokenize "a broken line" 65 'broken.jsonl:2' 'each line is to hold one object' broken.jsonl
tokenize "a last line that is cut off" 65 'cut.jsonl:2' 'JSON' cut.jsonl
tokenize "a list for an object" 65 'list.jsonl:2' 'a JSON object is expected' list.jsonl
tokenize "no text in a line" 65 'other.jsonl:2' '--field names another' other.jsonl
tokenize "a number for a text" 65 'number.jsonl:2' 'text' number.jsonl
tokenize "a field that lines lack" 65 'good.jsonl:1' 'body' good.jsonl --field body
tokenize "no UTF-8 in a line" 65 'bytes.jsonl:2' 'UTF-8' bytes.jsonl
tokenize "half a character in a line" 65 'half.jsonl:2' 'JSON' half.jsonl
tokenize "a zero byte" 65 'zero.txt: byte 1' 'leave binary files out' zero.txt
tokenize "UTF-16" 65 'utf16.txt: byte 0' 'UTF-8' utf16.txt
tokenize "Latin-1" 65 'latin.txt: byte 3' 'UTF-8' latin.txt
tokenize "the program itself" 65 'byte [0-9]* is no UTF-8' 'binary' "$TRIREME"
tokenize "gzip that is cut off" 65 'cut.txt.gz' 'end too early' cut.txt.gz
tokenize "gzip that is damaged" 65 'bad.txt.gz' 'damaged\|broken\|no gzip' bad.txt.gz
tokenize "an empty file" 65 'empty.txt' 'text' empty.txt
tokenize "an empty folder" 66 'nothing' 'holds no file' nothing
tokenize "a file that is not there" 66 'none.txt' 'none.txt' none.txt
tokenize "a glob that finds nothing" 66 'none\*.txt' 'none' 'none*.txt'
if command -v zstd >zstd.path; then
  zstd -q good.txt -o whole.zst && head -c 700 whole.zst >cut.txt.zst
  tokenize "Zstandard that is cut off" 65 'cut.txt.zst' 'end too early' cut.txt.zst
fi
truncate -s 1100M huge.txt

tokenize "a document that is too long" 65 'huge.txt' 'JSON lines\|binary' huge.txt
rm huge.txt

# Tokenizers.
sed 's/"type": *"BPE"/"type": "Magic"/' "$gpt2" >magic.json
head -c 3000 "$gpt2" >half.json
: >void.json
echo '{}' >none.json
echo '[1]' >array.json
model() { # MODEL [MORE]: a tokenizer.json of it
  printf '{"version":"1.0","truncation":null,"padding":null,"added_tokens":[%s],"normalizer":null,"pre_tokenizer":%s,"post_processor":null,"decoder":null,"model":%s}' \
    "${2:-}" "${3:-null}" "$1"
}
end='{"id":2,"content":"<e>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}'
model '{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}' "$end" >merge.json
model '{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}' "$end" >twice.json
model '{"type":"BPE","vocab":{"a":0,"b":-1},"merges":[]}' "$end" >below.json
model '{"type":"BPE","vocab":{"a":0,"b":9999999999},"merges":[]}' "$end" >beyond.json
model '{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a"]}' "$end" >onepart.json
model '{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}' "${end/2/7}" >added.json
model '{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}' "$end" '{"type":"Sorcery"}' >stage.json
model '{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}' "$end" \
  '{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false}' >regex.json
model '{"type":"Unigram","unk_id":9,"vocab":[["a",-1.0]]}' "${end/2/1}" >unk.json
model '{"type":"Unigram","unk_id":0,"vocab":[["a"]]}' "${end/2/1}" >score.json
sed 's/"truncation": *null/"truncation": {"max_length": 8}/' merge.json >truncation.json

first_model=$(find "$SOURCE/tests/reference/tokenizers" -name '*.model' | sort | head -1)
head -c 200 "$first_model" >short.model
printf 'YQ== 0\n!!! 1\n' >bad.tiktoken
printf 'YQ== 0\nYg== 1\n' >unknown.tiktoken
head -c 300000 /dev/zero | tr '\0' '[' >deep.json
tokenizer "no tokenizer file" 66 'none.tok' 'none.tok' none.tok
tokenizer "a folder without one" 66 'nothing' 'tokenizer' nothing
tokenizer "an unknown model" 65 'magic.json' 'Magic' magic.json
tokenizer "half a file" 65 'half.json' 'JSON' half.json
tokenizer "an empty file as tokenizer" 65 'void.json' 'JSON' void.json
tokenizer "an object without a model" 65 'none.json' 'model' none.json
tokenizer "a list" 65 'array.json' 'no "model"' array.json
tokenizer "too deep" 65 'deep.json' 'JSON\|deep' deep.json
tokenizer "a merge into nothing" 65 'merge.json' 'ab' merge.json
tokenizer "an id twice" 65 'twice.json' 'which "a" has' twice.json
tokenizer "an id below zero" 65 'below.json' '-1\|id' below.json
tokenizer "an id beyond numbers" 65 'beyond.json' '9999999999\|id' beyond.json
tokenizer "a merge of one part" 65 'onepart.json' 'merge' onepart.json
tokenizer "an added token of another id" 65 'added.json' '<e>' added.json
tokenizer "an unknown stage" 65 'stage.json' 'Sorcery' stage.json
tokenizer "a broken pattern" 65 'regex.json' '(a' regex.json
tokenizer "an unknown token outside" 65 'unk.json' 'unk_id' unk.json
tokenizer "a piece without a score" 65 'score.json' 'vocab' score.json
tokenizer "a file that truncates" 65 'truncation.json' 'truncation' truncation.json
tokenizer "SentencePiece that is cut off" 65 'short.model' 'short.model' short.model
tokenizer "tiktoken that is no base64" 65 'bad.tiktoken:2' 'base64' bad.tiktoken
tokenizer "tiktoken without all bytes" 65 'unknown.tiktoken' 'no token for byte 0' unknown.tiktoken

# encode and decode.
printf '[1]\n[1, 99999999]\n' >beyond.ids
printf '[1]\n[-1]\n' >below.ids
printf '[1]\nhello\n' >words.ids
printf '"a"\nhello\n' >text.json
lines "an id that no token has" 65 'standard input:2' '99999999' beyond.ids decode
lines "an id below zero in a line" 65 'standard input:2' '-1' below.ids decode
lines "words for ids" 65 'standard input:2' '15496, 995\|JSON' words.ids decode
lines "no JSON string" 65 'standard input:2' 'JSON' text.json 'encode --json'

# Token files.
"$TRIREME" tokenize good.txt --tokenizer "$gpt2" --end-token '<|end|>' -o tokens.h5 >out.log 2>&1
"$TRIREME" tokenize good.txt --tokenizer "$gpt2" --end-token '<|end|>' --format llmc -o tokens.bin >out.log 2>&1
"$TRIREME" tokenize good.txt --tokenizer "$gpt2" --end-token '<|end|>' --format megatron -o mega >out.log 2>&1
head -c 2000 tokens.h5 >cut.h5
head -c 2000 tokens.bin >cut.bin
head -c 100 tokens.bin >header.bin
cp tokens.bin magic.bin; printf 'XXXX' | dd of=magic.bin bs=1 conv=notrunc status=none
cp tokens.bin version.bin; printf '\011' | dd of=version.bin bs=1 seek=4 conv=notrunc status=none
cp mega.bin half.bin; head -c 30 mega.idx >half.idx
cp mega.bin wrong.bin; cp mega.idx wrong.idx; printf 'XXXX' | dd of=wrong.idx bs=1 conv=notrunc status=none
head -c 500 mega.bin >short.bin; cp mega.idx short.idx
cp mega.idx alone.idx
"$TRIREME" train "$SOURCE/tests/regression/tiny.toml" run.directory="$work/other" run.steps=4 \
  "data.paths=[\"good.txt\"]" >out.log 2>&1
of() { echo "data.source=$1 data.paths=[\"$2\"] model.vocabulary=${3:-1000}"; }
# shellcheck disable=SC2046
{
deck "HDF5 that is cut off" 65 'cut.h5' 'reads what trireme tokenize makes' $(of tokens cut.h5)
deck "text for HDF5" 65 'good.txt' '"text" reads texts' $(of tokens good.txt)
deck "HDF5 without tokens" 65 'checkpoint.h5' 'tokens' $(of tokens other/checkpoints/latest/checkpoint.h5)
deck "ids beyond the vocabulary, HDF5" 65 'tokens.h5' 'model.vocabulary' $(of tokens tokens.h5 100)
deck "too few tokens" 65 'tokens.h5' 'sequence' $(of tokens tokens.h5) model.sequence=65536
deck "llm.c's magic" 65 'magic.bin' 'llm.c' $(of llmc magic.bin)
deck "llm.c's version" 65 'version.bin' 'version' $(of llmc version.bin)
deck "llm.c cut off" 65 'cut.bin' 'tokens\|bytes' $(of llmc cut.bin)
deck "llm.c's header cut off" 65 'header.bin' 'header\|bytes' $(of llmc header.bin)
deck "ids beyond the vocabulary, llm.c" 65 'tokens.bin' 'model.vocabulary' $(of llmc tokens.bin 100)
deck "an index that is cut off" 65 'half.idx' 'half.idx' $(of megatron half)
deck "an index of another kind" 65 'wrong.idx' 'Megatron' $(of megatron wrong)
deck "tokens that are cut off" 65 'short.bin' 'short' $(of megatron short)
deck "an index without tokens" 66 'alone.bin' 'alone' $(of megatron alone)
deck "ids beyond the vocabulary, Megatron" 65 'mega' 'model.vocabulary' $(of megatron mega 100)
deck "a vocabulary below the tokenizer's" 65 'llama3.json' 'model.vocabulary' $(of text good.txt 100) data.tokenizer="$gpt2"
deck "text without an end token" 65 'llama3.json' 'tokenizer_config.json' $(of text good.txt) data.tokenizer="$gpt2"
deck "tokens of another tokenizer" 65 'tokens.h5' 'digest' $(of tokens tokens.h5) data.tokenizer="$first_model"
deck "an empty file of bytes" 65 'empty.txt' 'empty' $(of bytes empty.txt)
deck "a folder of bytes" 65 'nothing' 'directory\|folder' $(of bytes nothing)
}
deck "a weight below zero" 65 'data.blend' '0.7 tokens' data.source=blend data.paths=[] 'data.blend=["-1 tokens tokens.h5"]'
deck "a part that is not there" 66 'data.blend: none\*.h5' 'no file' data.source=blend data.paths=[] 'data.blend=["1 tokens none*.h5"]'
deck "a part of no kind" 65 'data.blend' 'bytes, tokens, megatron' data.source=blend data.paths=[] 'data.blend=["1 words tokens.h5"]'

# Conversations and templates.
mkdir chat
cp "$gpt2" chat/tokenizer.json
echo '{"eos_token":"<|end|>"}' >chat/tokenizer_config.json
echo '{"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"world"}]}' >talk.jsonl
cp talk.jsonl norole.jsonl; echo '{"messages":[{"content":"x"}]}' >>norole.jsonl
cp talk.jsonl nojson.jsonl; echo '{"messages":[' >>nojson.jsonl
cp talk.jsonl noform.jsonl; echo '{"question":"x"}' >>noform.jsonl
talk() { # TEMPLATE FILE [OPTION...]
  echo "$1" >template
  printf '%s\n' data.source=chat "data.paths=[\"$2\"]" data.tokenizer=chat data.chat_template=template \
    model.vocabulary=1000 "${@:3}"
}
chat() {
  local name=$1 wanted=$2 place=$3 fix=$4
  mapfile -t options < <(talk "${@:5}")
  talk "${@:5}" >/dev/null
  deck "$name" "$wanted" "$place" "$fix" "${options[@]}"
}
plain='{% for m in messages %}{{ m.content }}{% endfor %}'
chat "a broken conversation" 65 'nojson.jsonl:2' 'JSON' "$plain" nojson.jsonl
chat "a turn of nobody" 65 'norole.jsonl:2' 'role' "$plain" norole.jsonl
chat "a line of no form" 65 'noform.jsonl:2' 'messages, conversations' "$plain" noform.jsonl
chat "a template without an end" 65 'template' 'endfor' '{% for m in messages %}' talk.jsonl
chat "a template that is no template" 65 'template:1' 'supported' '{% wish %}' talk.jsonl
chat "an unknown filter" 65 'template' 'sparkle' '{{ messages | sparkle }}' talk.jsonl
chat "a loop that does not end" 65 'talk.jsonl:1' 'MiB of text\|does a loop not end' \
  '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x' talk.jsonl
chat "a macro that calls itself" 65 'talk.jsonl:1' 'deep\|nest' '{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}' talk.jsonl
chat "a template that makes too much text" 65 'talk.jsonl:1' 'MiB' "{{ 'ab' * 900000000 }}" talk.jsonl
chat "a template that refuses" 65 'talk.jsonl:1' 'no roles here' "{{ raise_exception('no roles here') }}" talk.jsonl
deck "no template" 65 'talk.jsonl:1' 'data.chat_template' data.source=chat 'data.paths=["talk.jsonl"]' data.tokenizer=chat model.vocabulary=1000
deck "a template file that is not there" 66 'missing.jinja' 'missing.jinja' data.source=chat 'data.paths=["talk.jsonl"]' \
  data.tokenizer=chat data.chat_template=missing.jinja model.vocabulary=1000
pair() { deck "$1" 65 "$2" "$3" train.objective=dpo data.source=preference "data.paths=[\"$4\"]" data.tokenizer=chat model.vocabulary=1000; }
echo '{"prompt":"x","chosen":"y","rejected":"z"}' >pairs.jsonl
cp pairs.jsonl one.jsonl; echo '{"prompt":"x","chosen":"y"}' >>one.jsonl
cp pairs.jsonl mixed.jsonl; echo '{"prompt":"x","chosen":"y","rejected":[]}' >>mixed.jsonl
pair "one answer of two" 'one.jsonl:2' 'rejected' one.jsonl
cp pairs.jsonl twice.jsonl; echo '{"prompt":"x","chosen":"y","rejected":"z","chosen":"w"}' >>twice.jsonl
: >nopairs.jsonl
pair "an answer that comes twice" 'twice.jsonl:2' "'chosen' comes twice" twice.jsonl
pair "a file without pairs" 'nopairs.jsonl' 'is to hold one' nopairs.jsonl
pair "a text beside messages" 'mixed.jsonl:2' 'two texts or two lists' mixed.jsonl

# Where results go.
mkdir taken.h5
bad "a folder in the result's place" 73 'taken.h5' 'taken.h5' "$TRIREME" tokenize good.txt --tokenizer "$gpt2" \
  --end-token '<|end|>' -o taken.h5
bad "a result's folder that is not there" 73 'none' 'none' "$TRIREME" tokenize good.txt --tokenizer "$gpt2" \
  --end-token '<|end|>' -o none/out.h5
bad "a trained tokenizer's folder that is not there" 73 'none' 'none' "$TRIREME" tokenize good.txt --train 300 -o none/out.json
cp good.txt kept.txt
ln -s kept.txt same.txt
cp "$gpt2" kept.json
bad "a result in the text's place" 64 '-o ./kept.txt' 'another name' "$TRIREME" tokenize same.txt --tokenizer "$gpt2" \
  --end-token '<|end|>' -o ./kept.txt
bad "a result in the tokenizer's place" 64 'kept.json' 'another name' "$TRIREME" tokenize good.txt --tokenizer kept.json \
  --end-token '<|end|>' -o kept.json
bad "a trained tokenizer in the text's place" 64 'kept.txt' 'another name' "$TRIREME" tokenize kept.txt --train 300 -o kept.txt
check "the text is still there" cmp good.txt kept.txt
if [ -n "${TRIREME_IO_FAULTS:-}" ]; then
  for at in 2 5 7; do  # while the folder, a part and the result are made
    bad "a full disk, from call $at on" '7[34]' 'out.h5' 'No space left' env \
      IO_FAULTS="$work:2:$at:28" LD_PRELOAD="$TRIREME_IO_FAULTS" "$TRIREME" tokenize good.txt \
      --tokenizer "$gpt2" --end-token '<|end|>' -o out.h5
  done
fi
echo "$cases cases"
check "at least 60 of them" [ "$cases" -ge 60 ]
finish
