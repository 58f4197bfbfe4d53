#!/usr/bin/env bash
# Bad decks: each gives its one message, names what is wrong, and leaves with its status.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: TRIREME=build/release/trireme bash tests/regression/bad_decks.sh
# `train --check` writes nothing and starts no ranks, so one process tries any mesh.
set -u

: "${TRIREME:?set TRIREME to the program}"
folder=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bad-decks.XXXXXX")
trap 'chmod -R u+rwX "$folder"; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export OMP_NUM_THREADS=1 OMP_PROC_BIND=false
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

passed=0 failed=0
echo "To be or not to be, that is the question." >text.txt
cat >good.toml <<'DECK'
run.steps = 10
model.layers = 2
model.hidden = 64
model.heads = 4
model.sequence = 32
data.paths = ["text.txt"]
batch.global = 8
DECK

report() {  # report NAME REASON OUTPUT
  failed=$((failed + 1))
  printf 'FAILED %s: %s\n%s\n' "$1" "$2" "${3:0:600}"
}

# expect NAME STATUS WORDS ARGUMENTS...: runs `train --check ARGUMENTS`; WORDS is a list of
# texts, separated by |, that the message must hold.
expect() {
  local name=$1 status=$2 words=$3 output got count
  shift 3
  output=$(timeout 60 "$TRIREME" train --check "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" = "$status" ] || { report "$name" "status $got, not $status" "$output"; return; }
  count=$(grep -c 'trireme: error:' <<<"$output")
  [ "$count" = 1 ] || { report "$name" "$count messages, not one" "$output"; return; }
  local IFS='|' word
  for word in $words; do
    grep -qF -- "$word" <<<"$output" || { report "$name" "lacks: $word" "$output"; return; }
  done
  passed=$((passed + 1))
}

# file NAME STATUS WORDS: the deck comes on standard input.
file() {
  cat >"$1.toml"
  expect "$1" "$2" "$3" "$1.toml"
}

# add NAME WORDS LINE...: the good deck with more lines at its top.
add() {
  local name=$1 words=$2
  shift 2
  { printf '%s\n' "$@"; cat good.toml; } >"$name.toml"
  expect "$name" 65 "$words" "$name.toml"
}

# rule NAME STATUS RANKS WORDS OVERRIDE...: the good deck, which overrides make wrong.
rule() {
  local name=$1 status=$2 ranks=$3 words=$4
  shift 4
  expect "$name" "$status" "$words" --ranks "$ranks" good.toml "$@"
}

# 0. The good deck is good: else every test below says nothing.
if output=$("$TRIREME" train --check good.toml 2>&1 </dev/null); then
  passed=$((passed + 1))
else
  report good "status $?" "$output"
fi

# 1. Files that are no decks.
expect absent 66 'absent.toml' absent.toml
mkdir folder.toml
expect folder 66 'folder.toml|directory' folder.toml
: >empty.toml
expect empty 65 'run.steps: must be given|model.layers: must be given|batch.global' empty.toml
cp good.toml unreadable.toml && chmod 000 unreadable.toml
[ -r unreadable.toml ] || expect unreadable 66 'unreadable.toml' unreadable.toml
head -c 4096 "$TRIREME" >binary.toml
expect binary 65 'binary.toml|not a text file' binary.toml
{ head -c 17000000 /dev/zero | tr '\0' '#'; } >huge.toml
expect huge 65 'huge.toml' huge.toml
mkfifo pipe.toml
expect pipe 66 'pipe.toml|not a regular file' pipe.toml
printf 'run.name = "\xff\xfe"\n' >latin.toml
expect latin 65 'latin.toml:1:|not valid TOML' latin.toml
{ printf 'run.steps = '; head -c 20000 /dev/zero | tr '\0' '['; echo; } >nested.toml
expect nested 65 'nested.toml:1:' nested.toml
{ printf 'a'; head -c 400000 /dev/zero | sed 's/\x00/.a/g'; echo ' = 1'; } >dotted.toml
expect dotted 65 'dotted.toml:1:|more than 16 parts' dotted.toml
seq 1 50000 | sed 's/.*/k& = 1/' >many.toml
expect many 65 'many.toml:1:1: k1: unknown key|more problems' many.toml
printf '\xef\xbb\xbf[run]\r\nstep = 5\r\n' >windows.toml
expect windows 65 'windows.toml:2:1: run.step|run.steps' windows.toml

# 2. TOML that is wrong.
file unclosed 65 'unclosed.toml:1:|not valid TOML' <<<'[run'
file twice 65 'twice.toml:2:' <<<$'run.steps = 1\nrun.steps = 2'
file no_value 65 'no_value.toml:1:' <<<'run.steps ='
file beyond_64_bits 65 'beyond_64_bits.toml:1:' <<<'run.steps = 99999999999999999999'
file bare_word 65 'bare_word.toml:1:' <<<'run.name = quickstart'
file open_text 65 'open_text.toml:1:|is a quote missing' <<<'run.name = "quick'

# Decks that include others: each problem at its place in its file.
add includes_nothing 'includes_nothing.toml:1:11: include = "god.toml"|did you mean good.toml?' 'include = "god.toml"'
add includes_itself 'include itself' 'include = ["good.toml", "includes_itself.toml"]'
add includes_a_pipe 'pipe.toml: is not a regular file' 'include = "pipe.toml"'
add includes_a_number 'include = 3: write the name of a deck' 'include = 3'
add includes_wrong 'twice.toml:2:' 'include = "twice.toml"'
add includes_late 'includes_late.toml:2:1: model.include: is no key' '[model]' 'include = "good.toml"' '[run]'
expect includes_by_argument 64 'include: is no key' good.toml include=good.toml

# 3. Keys and sections that are unknown.
add misspelt_key "misspelt_key.toml:1:7: model.head: unknown key|'model.heads'" 'model.head = 4'
add misspelt_optimizer "unknown key|'optimizer.learning_rate'" 'optimizer.learning_rat = 1'
add wrong_section "'optimizer.schedule.warmup'" 'optimizer.warmup = 4'
add misspelt_section 'unknown section|[optimizer]' 'optimiser.clip = 1'
add no_section "'parallel.tensor'" 'tensor = 2'
add not_near 'model.colour: unknown key|the keys of [model] are' 'model.colour = 2'
add no_experts 'model.architecture = "llama"|model.moe.experts = 8' 'model.moe.experts = 8'
add section_as_key 'parallel = 2: is a section' 'parallel = 2'
add key_as_section 'optimizer.clip = {' 'optimizer.clip.value = 2'
add quoted_dots '"parallel.tensor": unknown key' '"parallel.tensor" = 2'

# 4. Types.
add text_for_integer 'parallel.tensor = "two": expected an integer' 'parallel.tensor = "two"'
add real_for_integer 'write 2' 'parallel.tensor = 2.0'
add flag_for_integer 'batch.micro = true: expected an integer' 'batch.micro = true'
add integer_for_flag 'expected true or false' 'parallel.sequence = 1'
add text_for_real 'optimizer.clip = "1": expected a number' 'optimizer.clip = "1"'
add number_for_text 'run.name = 7: expected text' 'run.name = 7'
add date_for_text 'run.name = 2024-01-01: expected text' 'run.name = 2024-01-01'
add list_for_integer 'expected an integer' 'run.seed = [1]'
add text_for_list 'write ["a"]' 'data.validation_paths = "a"'
add mixed_list 'element 2' 'data.validation_paths = ["a", 1]'
add wrong_size 'unknown unit' 'parallel.bucket_bytes = "25 MiBs"'
add wrong_time 'expected a time' 'run.time_limit = "a while"'

# 5. Ranges and choices.
add negative 'run.seed = -1: must be 0 or more' 'run.seed = -1'
add zero 'batch.micro = 0: must be between 1' 'batch.micro = 0'
add too_large 'run.threads = 5000: must be between 0 and 4096' 'run.threads = 5000'
add open_below 'must be above 0' 'model.norm_eps = 0'
add open_above 'must be 0 or more and below 1' 'optimizer.betas = [0.9, 1.0]'
add not_a_number 'must be finite' 'optimizer.learning_rate = nan'
add infinite 'must be finite' 'optimizer.clip = inf'
add negative_time 'must be between 0' 'run.time_limit = "-5 min"'
add bad_choice 'must be one of|"adamw"' 'optimizer.name = "adam"'
add bad_case 'did you mean "NO_SHARD"' 'parallel.sharding_strategy = "no_shard"'
add control 'control characters' 'run.name = "a\u0007"'

# 6. Known, but not available yet; and words of other programs.
add tokenizer 'has no words to cut' 'data.tokenizer = "mine.json"'
add activations 'must be one of "none", "optimizer", "weights"' 'parallel.offload = "activations"'
add adafactor 'must be one of "adamw", "sgd", "lion", "muon"' 'optimizer.name = "adafactor"'
add parquet 'must be one of "bytes", "tokens", "megatron"' 'data.source = "parquet"'

# 7. The command line.
rule no_equals 64 1 'command line: parallel.tensor: expected section.key=value' parallel.tensor
rule unknown_override 64 1 "command line: model.head: unknown key|'model.heads'" model.head=3
rule wrong_override 64 1 'command line: model.heads = "twelve": expected' model.heads=twelve
rule range_override 64 1 'command line: model.heads = 0: must be' model.heads=0
rule section_override 64 1 'is a section' model=3
rule empty_override 64 1 "no value after '='" run.name=
rule open_override 64 1 'not valid TOML' 'data.paths=["a"'

# 8. Rules of several keys.
rule heads 65 1 'model.hidden = 66|model.heads = 4|write' model.hidden=66
rule kv_heads 65 1 'model.heads = 4|model.kv_heads = 3|write' model.kv_heads=3
rule odd_width 65 1 'model.hidden = 20|even width|write' model.hidden=20
rule tensor_chunks 65 1 'parallel.tensor_chunks = 2|parallel.tensor = 1|write' parallel.tensor_chunks=2
rule tensor_chunks_fp8 65 2 'parallel.tensor_chunks = 3|"te_blocks"|multiples of 8|write' \
  parallel.tensor_chunks=3 parallel.tensor=2 precision.compute=fp8 precision.recipe=te_blocks
rule tensor 65 3 'model.heads = 4|parallel.tensor = 3|write' parallel.tensor=3
rule graphs_device 65 1 'run.cuda_graphs = true|run.device = "auto"|write run.device = "cuda"' \
  run.cuda_graphs=true
graphs=(run.cuda_graphs=true run.device=cuda)
rule gemm_search_experts 65 1 'run.gemm_search = true|model.architecture = "mixtral"|write' \
  run.gemm_search=true model.architecture=mixtral model.moe.experts=4
rule tf32_host 65 1 'precision.tf32 = true|run.device = "auto"|write run.device = "cuda"' \
  precision.tf32=true
rule tf32_bf16 65 1 'precision.tf32 = true|precision.compute = "bf16"|precision.tf32 = false' \
  precision.tf32=true precision.compute=bf16 run.device=cuda
rule graphs_tensor 65 2 'run.cuda_graphs = true|parallel.tensor = 2|parallel.tensor = 1' \
  "${graphs[@]}" parallel.tensor=2
rule graphs_context 65 2 'parallel.context = 2|parallel.context = 1' \
  "${graphs[@]}" parallel.context=2
rule graphs_one 65 2 'one microbatch a step|write comm.backend = "nccl"' \
  "${graphs[@]}" batch.micro=2 batch.global=4
rule graphs_one_pipeline 65 4 'one microbatch a step|without a pipeline' \
  "${graphs[@]}" parallel.pipeline=2 comm.backend=nccl batch.micro=2 batch.global=4
rule graphs_experts 65 1 'model.architecture = "mixtral"|write run.cuda_graphs = false' \
  "${graphs[@]}" model.architecture=mixtral model.moe.experts=4
rule graphs_sharding 65 2 'parallel.sharding_strategy = "FULL_SHARD"|comm.backend = "nccl"' \
  "${graphs[@]}" parallel.sharding_strategy=FULL_SHARD
rule graphs_feedback 65 2 'scales that the host makes|precision.error_feedback = false' \
  "${graphs[@]}" parallel.sharding_strategy=FULL_SHARD comm.backend=nccl \
  precision.compute=bf16 precision.gradient_reduce=bf16 precision.error_feedback=true
rule graphs_offload 65 2 'parallel.offload = "weights"|write parallel.offload = "optimizer"' \
  "${graphs[@]}" parallel.sharding_strategy=FULL_SHARD parallel.offload=weights comm.backend=nccl
rule graphs_autocast 65 1 'keeps weights in fp32 that modules read in bf16|"bf16"' \
  "${graphs[@]}" precision.recipe=bf16_autocast precision.compute=bf16
rule graphs_narrow 65 1 'keeps gradients in bf16 that modules add to in fp32' \
  "${graphs[@]}" precision.recipe=bf16_fp32_sum precision.compute=bf16
rule muon_offload 65 2 'parallel.offload = "optimizer"|optimizer.name = "muon"|write' \
  optimizer.name=muon parallel.sharding_strategy=ZERO1 parallel.offload=optimizer
rule muon_low_precision 65 1 'optimizer.name = "muon"|precision.recipe = "fp8_lm"|write' \
  optimizer.name=muon precision.compute=fp8 precision.recipe=fp8_lm
rule ranks 78 3 'parallel.tensor = 2|the number of ranks, 3|start 2 or 4 ranks' parallel.tensor=2
rule micro 65 1 'batch.global = 8|batch.micro = 3|write' batch.micro=3
rule data_ranks 78 3 'batch.global = 8|3 data ranks|start 2 ranks' batch.micro=4
rule sequence 65 4 'model.sequence = 33|parallel.tensor = 4|parallel.sequence = true' \
  parallel.tensor=4 parallel.sequence=true model.sequence=33
rule zigzag 65 2 'model.sequence = 30|2 x parallel.context = 2|write model.sequence = 32' \
  parallel.context=2 model.sequence=30
rule ulysses 65 8 'model.heads = 4|parallel.tensor = 4|parallel.context = 2' \
  parallel.context=2 parallel.tensor=4 parallel.context_method=ulysses
rule v_stages 65 2 'parallel.schedule = "zb_v"|parallel.virtual_stages = 1' \
  parallel.pipeline=2 parallel.schedule=zb_v
rule interleaved 65 2 'parallel.schedule = "interleaved"|parallel.virtual_stages = 1' \
  parallel.pipeline=2 parallel.schedule=interleaved
rule few_layers 65 5 'model.layers = 2|parallel.pipeline = 5' parallel.pipeline=5
rule stage_layers 65 2 'parallel.stage_layers = [2, 1]|the sum 3|model.layers = 2' \
  parallel.pipeline=2 'parallel.stage_layers=[2, 1]'
rule pipeline_ranks 78 3 'parallel.pipeline = 2|the number of ranks, 3' parallel.pipeline=2
rule shard_group 65 4 'parallel.shard_group = 2|FULL_SHARD' \
  parallel.sharding_strategy=FULL_SHARD parallel.shard_group=2
rule shard_ranks 78 4 'parallel.shard_group = 3 must divide' \
  parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=3
rule prefetch 65 2 'parallel.prefetch = 2|NO_SHARD' parallel.prefetch=2
rule offload 65 2 'parallel.offload = "weights"|ZERO1' \
  parallel.sharding_strategy=ZERO1 parallel.offload=weights
rule offload_fraction 65 1 'parallel.offload_fraction = 0.5|parallel.offload = "none"|write' \
  parallel.offload_fraction=0.5
rule offload_activations 65 2 'parallel.offload_activations = true|parallel.schedule = "zb_h1"|write' \
  parallel.pipeline=2 parallel.schedule=zb_h1 parallel.offload_activations=true
rule offload_directory 65 1 'parallel.offload = "disk"|parallel.offload_directory = ""|/tmp' \
  parallel.offload=disk
rule wrap 65 2 'parallel.wrap = "size"|parallel.wrap_parameters = 0' \
  parallel.sharding_strategy=FULL_SHARD parallel.wrap=size
rule pieces 65 1 'recompute.pieces = []|selective' recompute.policy=selective
rule no_piece 65 1 'names a piece that there is not' recompute.policy=selective \
  'recompute.pieces=["mlp"]'
rule partition 65 1 'recompute.partition = true|parallel.tensor = 1' \
  recompute.policy=full recompute.partition=true
rule group 65 1 '"lm_head.weight"|says nothing' 'optimizer.groups=["lm_head.weight"]'
rule no_tensor 65 1 'fits no tensor|model.embed_tokens.weight' 'optimizer.groups=["wte frozen"]'
rule vocabulary 65 1 'model.vocabulary = 100|data.source = "bytes"' model.vocabulary=100
rule no_vocabulary 65 1 'model.vocabulary must be given|data.source = "tokens"' \
  data.source=tokens
rule rope 65 1 'model.rope_theta = 5000.0|model.architecture = "gpt2"' \
  model.architecture=gpt2 model.rope_theta=5000
rule gpt2_groups 65 1 'model.architecture = "gpt2"|model.kv_heads = 2' \
  model.architecture=gpt2 model.kv_heads=2
rule no_paths 65 1 'needs files|data.paths' 'data.paths=[]'
rule synthetic_paths 65 1 'data.paths = ["text.txt"]|data.source = "synthetic"' \
  data.source=synthetic model.vocabulary=300
rule validation 65 1 'metrics.validate_every = 2|data.validation_paths' metrics.validate_every=2
rule warmup 65 1 'optimizer.schedule.warmup = 11|run.steps = 10' optimizer.schedule.warmup=11
rule wsd 65 1 'optimizer.schedule.decay = 0|"wsd"' optimizer.schedule.name=wsd
rule constant 65 1 'optimizer.schedule.decay = 3|"constant"' optimizer.schedule.decay=3
rule betas 65 1 'optimizer.betas = [0.9]|two elements' 'optimizer.betas=[0.9]'
rule proof 65 1 'precision.gradient_reduce = "fp32"|precision.compute = "fp64"' \
  precision.compute=fp64 precision.gradient_reduce=fp32
rule recipe 65 1 'precision.recipe = "bf16"|precision.compute = "fp32"' \
  precision.recipe=bf16
rule rounding 65 1 'precision.rounding = "stochastic"|loses no small step' \
  precision.rounding=stochastic
rule feedback 65 1 'precision.error_feedback = true|nothing is rounded' \
  precision.error_feedback=true
rule feedback_fp16 65 1 'precision.error_feedback = true|a changed loss scale' \
  precision.error_feedback=true precision.compute=fp16 precision.gradient_reduce=bf16
rule kept_codes 65 1 'precision.keep_weight_codes = true has no meaning|"fp32"' \
  precision.keep_weight_codes=true
rule kept_codes_sharded 65 2 'precision.keep_weight_codes = true|"FULL_SHARD"' \
  precision.keep_weight_codes=true precision.compute=fp8 batch.micro=2 model.feed_forward=64 \
  parallel.sharding_strategy=FULL_SHARD
rule fp8_width 65 1 'model.hidden = 40|a multiple of 16|write model.hidden = 48' \
  precision.compute=fp8 model.hidden=40 model.feed_forward=64
rule fp8_feed_forward 65 4 'model.feed_forward = 96|a multiple of 64|write model.feed_forward = 128' \
  precision.compute=fp8 parallel.tensor=4 model.feed_forward=96 batch.micro=8
rule fp8_experts 65 1 \
  'model.moe.expert_feed_forward = 40|a multiple of 16|write model.moe.expert_feed_forward = 48' \
  precision.compute=fp8 model.architecture=mixtral model.moe.experts=4 model.moe.top_k=2 \
  model.moe.expert_feed_forward=40
rule fp8_tokens 65 1 'batch.micro = 1 x model.sequence = 24|a multiple of 16' \
  precision.compute=fp8 model.sequence=24
rule fp8_layers 65 1 'precision.first_bf16 = 2|precision.last_bf16 = 1|model.layers = 2' \
  precision.compute=fp8 precision.first_bf16=2 precision.last_bf16=1
rule bf16_layers 65 1 'precision.last_bf16 = 1 has no meaning|precision.compute = "fp32"' \
  precision.last_bf16=1
rule dump 65 1 'debug.dump_gradients = [11]|run.steps = 10' 'debug.dump_gradients=[11]'
rule fault 65 1 'debug.fault = "burn@1@0"|kind@step@rank' debug.fault=burn@1@0
rule early_fault 65 1 'debug.fault = "nan@start@0"|no model yet' debug.fault=nan@start@0
rule late_fault 65 1 'debug.fault = "kill@11@0"|run.steps = 10' debug.fault=kill@11@0
rule name 65 1 'run.name = "a/b"|run.directory' run.name=a/b
rule weights 65 1 '2^50 weights' model.layers=100000 model.hidden=16777216 \
  model.feed_forward=268435456
rule tokens 65 1 '2^62' run.steps=1000000000000 batch.global=1000000000 \
  model.sequence=134217728

# Mixtures of experts.
moe="model.architecture=mixtral model.moe.experts=4 model.feed_forward=48"
rule no_moe 65 1 'model.architecture = "mixtral"|model.moe.experts = 0' \
  model.architecture=mixtral
rule top_k 65 1 'model.moe.top_k = 5|model.moe.experts = 4|write' $moe model.moe.top_k=5
rule shared 65 1 'model.moe.shared_experts = 1 has no meaning|"mixtral"' $moe \
  model.moe.shared_experts=1
rule dense_layers 65 1 'model.moe.dense_layers = 3|model.layers = 2' \
  ${moe/mixtral/deepseek_moe} model.moe.dense_layers=3
rule bias 65 1 'model.moe.bias_update_rate = 0.5|model.moe.choice_bias = false' \
  ${moe/mixtral/deepseek_moe} model.moe.bias_update_rate=0.5
rule capacity 65 2 'model.moe.capacity_factor = 1.5|parallel.context = 2' $moe \
  parallel.context=2 model.moe.capacity_factor=1.5
rule dense_expert 65 2 'parallel.expert = 2 has no meaning' parallel.expert=2
rule experts 65 3 'model.moe.experts = 4|parallel.expert = 3|write' $moe \
  parallel.expert=3 batch.global=9
rule absent_resume 66 1 'checkpoint.resume = "nowhere": nothing has that name' checkpoint.resume=nowhere
rule expert_memory 65 2 'parallel.expert_memory = 0.5 is less than the even load' $moe \
  parallel.expert=2 parallel.expert_memory=0.5
rule expert_ranks 78 2 'parallel.expert = 4 must divide the 2' $moe parallel.expert=4
rule expert_fold 65 6 'parallel.expert = 2|parallel.shard_group = 3' $moe batch.global=6 \
  parallel.expert=2 parallel.sharding_strategy=HYBRID_SHARD parallel.shard_group=3

# 9. Several at once, in one message.
add together "unknown key|must be between 1e-37|parallel.tensor = 3" \
  'model.head = 3' 'optimizer.eps = 0' 'parallel.tensor = 3'
rule both 65 4 'the number of ranks, 4|model.heads = 4 must be divisible|batch.global = 8' \
  parallel.tensor=3 batch.micro=3

# 10. Folders that the run could not write to, on ranks that were started here.
here() {  # here NAME WORDS OVERRIDE...
  local name=$1 words=$2
  shift 2
  expect "$name" 73 "$words" good.toml "$@"
}
here file_for_run 'text.txt: cannot be made, for a file of that name exists' run.directory=text.txt
here file_above_run 'text.txt: cannot be made' run.directory=text.txt/a/run
mkdir -p taken/metrics.jsonl
here folder_in_run 'metrics.jsonl' run.directory=taken
mkdir closed && chmod 555 closed
[ -w closed ] || here closed_run 'closed/run: the directory cannot be made' run.directory=closed/run
disk="parallel.sharding_strategy=ZERO1 parallel.offload=disk"
here no_offload_folder '"/nowhere": rank 0 cannot write to that folder' $disk \
  parallel.offload_directory=/nowhere
here no_variable 'the variable TRIREME_NO_SUCH is not set' $disk \
  'parallel.offload_directory="$TRIREME_NO_SUCH/x"'
here no_partner_folder '/nowhere: there is no such folder on host' checkpoint.partner=2 \
  checkpoint.partner_directory=/nowhere
if output=$("$TRIREME" train --check --ranks 2 good.toml $disk \
  parallel.offload_directory=/nowhere 2>&1 </dev/null); then
  passed=$((passed + 1))
else
  report folders_of_elsewhere "status $?" "$output"
fi

# 11. Checkpoints and weights of another model: --check says what the run says.
both() {  # both NAME STATUS WORDS OVERRIDE...
  local name=$1 status=$2 words=$3 output
  shift 3
  expect "$name" "$status" "$words" good.toml "$@"
  local said
  said=$("$TRIREME" train --check good.toml "$@" 2>&1 </dev/null | grep 'trireme: error:')
  output=$(timeout 60 "$TRIREME" train good.toml "$@" 2>&1 </dev/null | grep 'trireme: error:')
  if [ "$said" = "$output" ]; then passed=$((passed + 1)); else
    report "$name" "--check: $said" "the run: $output"
  fi
}
earlier() {  # earlier NAME OVERRIDE...: a run of two steps
  local name=$1
  shift
  "$TRIREME" train good.toml run.steps=2 run.directory="$name" "$@" >"$name.log" 2>&1 </dev/null ||
    report "$name" "status $?" "$(cat "$name.log")"
}
earlier full checkpoint.every=1
earlier plain optimizer.name=sgd
earlier narrow precision.compute=fp8 precision.recipe=fp8_lm
earlier adapted model.from=full adapter.rank=4
before=$(find full plain narrow adapted | sort)
both other_width 65 'full/checkpoints/step-00000002|embed_tokens.weight|[257, 128] is wanted|[model]' \
  run.directory=full model.hidden=128
both named_checkpoint 65 'full/checkpoints/step-00000002|[257, 128] is wanted' \
  run.directory=new checkpoint.resume=full model.hidden=128
both more_layers 65 "has no 'model/model.layers.2.|which this run's model has" \
  run.directory=full model.layers=3
both fewer_layers 65 "has 'model/model.layers.1.|has not and would drop|[model]" \
  run.directory=full model.layers=1
both other_family 65 "has no 'model/transformer." run.directory=full model.architecture=gpt2
both other_optimizer 65 'has no second moments|write optimizer.name = "sgd"' run.directory=plain
both narrow_moments 65 'holds e4m3, which does not convert to fp32' run.directory=narrow
both later_steps 73 'holds later steps of this run, up to step-00000002' \
  run.directory=full checkpoint.resume=full/checkpoints/step-00000001
both never_again 73 'checkpoint.resume = "never"|holds checkpoints' \
  run.directory=full checkpoint.resume=never
both lost_adapter 65 "holds an adapter of 'model.layers.0" run.directory=adapted
both new_adapter 65 'which this run|lora_A.weight|[adapter]' run.directory=full \
  model.from=full adapter.rank=4
both other_rank 65 'has the shape [4, 64], but [8, 64] is wanted' run.directory=new \
  model.from=adapted adapter.rank=8
both adapter_in_start 65 'model.from = "adapted" has adapters, and this run has none' \
  run.directory=new model.from=adapted
if "$TRIREME" --version | grep -q '^CUDA: not built in'; then
  both no_cuda 78 'built without CUDA' run.directory=new run.device=cuda
  rule no_graphs 78 1 'run.cuda_graphs = true|built with CUDA' "${graphs[@]}"
fi
# Before a plan is made, which would take more memory than there is.
expect vast 78 'alone take|start more ranks' good.toml model.layers=100000 model.hidden=16384
# On more ranks than there are here, and of the later stages of a pipeline.
rule stage_of_another 65 2 "has no 'model/model.layers.2." run.directory=full model.layers=3 \
  parallel.pipeline=2
if [ "$before" = "$(find full plain narrow adapted | sort)" ]; then
  passed=$((passed + 1))
else
  report runs_unchanged "a run that cannot start changed files"
fi

# 12. Nothing was written by any of them.
if ls -d runs >/dev/null 2>&1; then
  report nothing_written "train --check wrote files" "$(find runs | head)"
else
  passed=$((passed + 1))
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
