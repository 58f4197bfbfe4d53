#!/usr/bin/env bash
# Quantized Hugging Face folders: numbers to the bit, damaged ones, and what is written.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"
cd "$SOURCE/tests/reference/quantized" || exit 1

# Digest and name of each tensor of a checkpoint in fp32.
digests() { "$TRIREME" inspect "$1" --tensors 2>/dev/null | sed -nE 's/^([0-9a-f]{32}) .* model\/([^ ]*).*/\1 \2/p' | sort; }

for config in */config.json; do
  name=${config%/*}
  run 1 convert "$name" "$work/$name.ck" --dtype fp32
  check "$name is read" test "$status" = 0
  digests "$work/$name.ck" >"$work/a"
  sed -n "s/^$name //p" digests.txt | sort >"$work/b"
  check "$name has the numbers of its library" cmp "$work/a" "$work/b"
  check "$name has numbers" test -s "$work/a"
done
run 2 convert nf4_odd "$work/two.ck" --dtype fp32
digests "$work/two.ck" >"$work/a"
sed -n 's/^nf4_odd //p' digests.txt | sort >"$work/b"
check "two ranks read the same" cmp "$work/a" "$work/b"

# Numbers become the codes of the libraries, from a folder and from a checkpoint; experts' too.
# HOW+ is double quantization.
written() {
  local model=$1 how=$2 folder
  local options="--quantize ${how%+}"
  [ "$how" = "${how%+}" ] || options="$options --double-quantization"
  # shellcheck disable=SC2086 # these are words
  run 1 convert "../folders/$model" "$work/$model.$how" $options
  check "$how of $model is written" test "$status" = 0
  # shellcheck disable=SC2086
  run 2 convert "$work/$model.ck" "$work/$model.$how.of" $options --shard-bytes 3000
  check "$how of $model is written of a checkpoint" test "$status" = 0
  for folder in "$work/$model.$how" "$work/$model.$how.of"; do
    rm -rf "$work/again"
    run 1 convert "$folder" "$work/again" --dtype fp32
    digests "$work/again" >"$work/a"
    sed -n "s/^written_${model}_$how //p" digests.txt | sort >"$work/b"
    check "$how of $model has the codes of its library" cmp "$work/a" "$work/b"
    check "$how of $model has numbers" test -s "$work/a"
  done
}

# same_from_codes NAME: logits from its codes, and from the numbers that they stand for.
same_from_codes() {
  local weights
  for weights in codes numbers; do
    run 1 evaluate "$work/$1" ../folders/tokens.h5 --weights $weights --logits "$work/$weights.h5"
    check "$1 is evaluated from $weights" test "$status" = 0
  done
  check "$1 has the same logits from both" "$H5_COMPARE" "$work/codes.h5" "$work/numbers.h5" 0
}

for model in llama mixtral; do run 1 convert ../folders/$model "$work/$model.ck"; done
for how in nf4 nf4+ fp4 fp4+ int8 fp8 fp8-blocks; do written llama $how; done
for how in nf4+ int8 fp8 fp8-blocks; do
  written mixtral $how
  same_from_codes mixtral.$how
done
same_from_codes llama.fp4+

# has FOLDER TEXT: whether `inspect` lists such a tensor.
has() { "$TRIREME" inspect "$1" --tensors | grep -qE "$2"; }
has_none() { ! has "$@"; }
check "experts of Mixtral are codes" has "$work/mixtral.nf4+" 'NF4 .*experts\.0\.w1'
check "its routers are numbers" has_none "$work/mixtral.nf4+" 'NF4 .*(gate|lm_head|embed)'
run 1 convert ../folders/mixtral "$work/kept" --quantize int8 --keep-experts
check "experts stay numbers" has_none "$work/kept" 'INT8 .*experts'
check "and nothing else" has "$work/kept" 'INT8 .*q_proj'
run 1 convert ../folders/gpt_oss "$work/stacked" --quantize fp4 --double-quantization
check "experts in one tensor stay numbers" grep -q 'experts stay numbers: GptOssForCausalLM' "$work/out"
same_from_codes stacked

# moe DIRECTORY WIDTH: a Mixtral of one step.
moe() {
  cat >"$work/moe.toml" <<EOD
run.steps = 1
run.directory = "$1"
model.architecture = "mixtral"
model.layers = 1
model.hidden = $2
model.heads = 4
model.feed_forward = 256
model.vocabulary = 67
model.sequence = 16
model.moe.experts = 3
model.moe.top_k = 2
data.source = "synthetic"
batch.global = 1
batch.micro = 1
precision.compute = "fp32"
checkpoint.every = 1
EOD
  run 1 train "$work/moe.toml"
  check "a Mixtral $2 wide is made" test "$status" = 0
}
moe "$work/moe" 128
for type in fp32 bf16; do
  run 1 convert "$work/moe" "$work/int4.$type" --quantize int4 --dtype $type
  check "int4 is written of $type" test "$status" = 0
  check "experts are int4" has "$work/int4.$type" 'INT4 .*experts\.2\.w2'
  same_from_codes "int4.$type"
done
moe "$work/cut" 160
run 1 convert "$work/cut" "$work/blocks" --quantize fp8-blocks
check "blocks that are cut short are said" grep -q 'warning: .*last block of less than 128' "$work/out"
same_from_codes blocks

# refused STATUS MESSAGE FROM OPTIONS...: nothing is written.
refused() {
  local wanted=$1 message=$2 from=$3
  shift 3
  run 1 convert "$from" "$work/to" "$@"
  check "refused: $from $*" expect "$wanted" "$message"
  check "nothing is written of it" test ! -e "$work/to"
}
refused 64 'none of nf4, fp4, int8, fp8, fp8-blocks and int4' ../folders/llama --quantize int2
refused 64 'double-quantization: is of nf4 and fp4 alone' ../folders/llama --double-quantization
refused 64 'double-quantization: is of nf4 and fp4 alone' ../folders/llama --quantize int8 --double-quantization
refused 64 'keep-experts: is of nf4, fp4 and int8 alone' ../folders/llama --quantize int4 --keep-experts
for how in fp8 fp8-blocks int4; do
  refused 65 'write --quantize int8, nf4 or fp4' ../folders/gpt2 --quantize $how
done
refused 65 "do not divide the 160 of '.*q_proj.weight': write --quantize" "$work/cut" --quantize int4
for folder in nf4 ct_int4 gptq; do
  refused 65 'holds codes already' "$folder" --quantize fp8
done

# Codes in memory: 27 million weights are 54.5 MB in bf16, and 15.3 MB as NF4 (4.5 bits each)
# with 6.8 MB for the numbers of a layer. Allocators and libraries differ by some MB.
if [ -z "${TRIREME_PEAK_MEMORY:-}" ]; then
  echo "TRIREME_PEAK_MEMORY names no program"
  exit 1
fi
cat >"$work/deck.toml" <<EOD
run.steps = 1
run.directory = "$work/large"
model.architecture = "llama"
model.layers = 8
model.hidden = 512
model.heads = 8
model.feed_forward = 1536
model.vocabulary = 67
model.sequence = 16
data.source = "synthetic"
batch.global = 1
batch.micro = 1
precision.compute = "fp32"
checkpoint.every = 1
EOD
run 1 train "$work/deck.toml"
check "a larger model is made" test "$status" = 0
run 1 convert "$work/large" "$work/large.nf4" --dtype bf16 --quantize nf4
check "and quantized" test "$status" = 0
peak() {
  timeout 300 "$TRIREME_PEAK_MEMORY" "$work/$1.peak" "$TRIREME" evaluate "$work/large.nf4" ../folders/tokens.h5 \
    --weights "$1" --logits "$work/$1.h5" >"$work/out" 2>&1 </dev/null
  check "it runs from $1" test $? = 0
}
peak numbers
peak codes
saved() {
  paste "$work/numbers.peak" "$work/codes.peak" |
    awk '{ print "less by " ($1 - $2) / 1024 " MiB"; exit ($1 - $2) * 1024 < 32.4e6 - 8e6 }'
}
check "codes take the memory of codes" saved
check "and have the same bits" "$H5_COMPARE" "$work/codes.h5" "$work/numbers.h5" 0

# damaged STATUS MESSAGE CASE FROM TO: the header, or config.json, with FROM written as TO.
damaged() {
  rm -rf "$work/bad"
  cp -r "$3" "$work/bad"
  sed -i "s/$4/$5/" "$work/bad/config.json"
  perl -0pi -e "s/$4/$5/" "$work/bad/model.safetensors"
  run 1 convert "$work/bad" "$work/bad.ck"
  check "damaged: $3, $4 as $5" expect "$1" "$2"
  check "nothing is written of it" test ! -e "$work/bad.ck"
}
damaged 65 'in a way that this program cannot read' nf4 bitsandbytes hqq
damaged 65 'largest magnitudes .*q_proj.weight.absmax. are missing' nf4 q_proj.weight.absmax q_proj.weight.absmay
damaged 65 'absmax. has the shape .32., where .64. was expected' nf4 '"blocksize": 64' '"blocksize": 32'
damaged 65 'holds I32, where F32 was expected' nf4 'F32","shape":\[16\]' 'I32","shape":[16]'
damaged 65 "'blocksize' must be" nf4 '"blocksize": 64' '"blocksize": 65'
damaged 65 "'quant_type' must be" nf4 '"quant_type": "nf4"' '"quant_type": "nf5"'
damaged 65 "'shape' must be" nf4 '"shape": \[32' '"shape": [33'
damaged 65 "'dtype' must be" nf4 '"dtype": "float32"' '"dtype": "float64"'
damaged 65 'quant_state.bitsandbytes__nf4.* is missing' nf4 'q_proj.weight.quant_state.bitsandbytes__nf4' 'q_proj.weight.quant_state.bitsandbytes__nf5'
damaged 65 'nested magnitudes .* are missing' nf4_double 'q_proj.weight.nested_absmax' 'q_proj.weight.nested_absmay'
damaged 65 'SCB. are missing' int8 q_proj.SCB q_proj.SCC
damaged 65 "scales .*weight_scale. are missing" ct_fp8_channel q_proj.weight_scale q_proj.weight_scald
damaged 65 'has the shape .*, where .* was expected' ct_int4 '"group_size": 16' '"group_size": 32'
damaged 65 'zero points .* are missing' ct_int4_zero q_proj.weight_zero_point q_proj.weight_zero_poinz
damaged 65 "'quantization_config.config_groups.group_0.weights.strategy'" ct_int4 '"strategy": "group"' '"strategy": "token"'
damaged 65 'config_groups' ct_int4 '"config_groups"' '"config_grouqs"'
damaged 65 "bits' = 5" gptq '"bits": 4' '"bits": 5'
damaged 65 'scales .* are missing' gptq q_proj.scales q_proj.scalez
damaged 65 'has the shape .*, where .* was expected' gptq '"bits": 4' '"bits": 8'
damaged 65 'checkpoint_format' gptq '"checkpoint_format": "gptq"' '"checkpoint_format": "marlin"'
damaged 65 'zero points .* are missing' awq q_proj.qzeros q_proj.qzeroz
damaged 65 'is no layout' awq '"version": "gemm"' '"version": "gemv"'
# One of the groups of inputs is -1, which stands for "no order" where all are.
rm -rf "$work/bad"
cp -r gptq_order "$work/bad"
perl -0777 -pi -e 's/(\} *)\x02\x00\x00\x00/$1\xff\xff\xff\xff/' "$work/bad/model.safetensors"
run 1 convert "$work/bad" "$work/bad.ck"
check "damaged: a group of inputs" expect 65 "has the group -1, of which there are 4"
finish
