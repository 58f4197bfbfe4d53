// Every cross rule, and everything that is not available yet, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    // model
    {{"model.hidden=66", "model.heads=4"},
     1,
     {"command line: model.hidden = 66 must be divisible by model.heads = 4: write "
      "model.hidden = 72 or model.heads = 3"}},
    {{"model.kv_heads=3"},
     1,
     {"sample.toml:4:15: model.heads = 4 must be divisible by model.kv_heads = 3: write "
      "model.kv_heads = 2"}},
    {{"model.kv_heads=8"}, 1, {"model.heads = 4", "model.kv_heads = 8", "write"}},
    {{"model.hidden=20", "model.heads=4"},
     1,
     {"model.hidden = 20", "model.heads = 4", "width 5", "write model.hidden = 24"}},
    {{"model.head_width=7"},
     1,
     {"model.head_width = 7 is odd, and rotary positions need an even width: write "
      "model.head_width = 8"}},
    {{"model.architecture=gpt2", "model.activation=swiglu"},
     1,
     {"model.activation = \"swiglu\" has a gate, and model.architecture = \"gpt2\" has "
      "no "
      "tensor for it: write model.activation = \"auto\""}},
    {{"model.architecture=gpt2", "model.head_width=8"},
     1,
     {"model.head_width = 8 has no meaning with model.architecture = \"gpt2\"",
      "remove it"}},
    {{"model.architecture=gpt2", "model.kv_heads=2"},
     1,
     {"model.architecture = \"gpt2\"", "model.kv_heads = 2", "model.heads = 4", "write"}},
    {{"model.architecture=gpt2", "model.rope_theta=500000"},
     1,
     {"model.rope_theta = 500000.0 has no meaning with model.architecture = \"gpt2\"",
      "remove it"}},
    {{"model.architecture=gpt2", "model.rope.scaling=linear"},
     1,
     {"model.rope.scaling = \"linear\" has no meaning with model.architecture = \"gpt2\"",
      "remove it"}},
    {{R"(model.layer_types=["full_attention","sliding_attention"])"},
     1,
     {"model.layer_types", " has no meaning with model.window = 0"}},
    {{"model.window=5", R"(model.layer_types=["full_attention"])"},
     1,
     {"does not have as many words as there are layers, model.layers = 2"}},
    {{"model.window=5", R"(model.layer_types=["full_attention","chunked_attention"])"},
     1,
     {"has another word than \"full_attention\", \"sliding_attention\" and "
      "\"linear_attention\""}},
    {{"model.window=5", "run.device=cuda", "attention.library=cudnn"},
     1,
     {"attention.library = \"cudnn\" has no windows here, but model.window = 5"}},
    {{"model.rope.factor=2"},
     1,
     {"model.rope.factor = 2.0 has no meaning with model.rope.scaling = \"none\""}},
    {{"model.rope.scaling=yarn", "model.rope.original=8", "model.rope.low_turns=2"},
     1,
     {"model.rope.low_turns = 2.0 has no meaning with model.rope.scaling = \"yarn\""}},
    {{"model.rope.scaling=linear", "model.rope.slow_turns=2"},
     1,
     {"model.rope.slow_turns = 2.0 has no meaning", "remove it"}},
    {{"model.rope.scaling=linear", "model.rope.original=8"},
     1,
     {"model.rope.original = 8.0 has no meaning", "remove it"}},
    {{"model.rope.scaling=llama3"},
     1,
     {"model.rope.scaling = \"llama3\" with model.rope.original = 0.0", "write"}},
    {{"model.rope.scaling=llama3", "model.rope.original=8", "model.rope.low_turns=4"},
     1,
     {"model.rope.low_turns = 4.0 is not less than model.rope.high_turns = 4.0"}},
    {{"model.rope.width=3"},
     1,
     {"model.rope.width = 3 must be even and at most the width of a head", "write"}},
    {{"model.rope.width=4096"}, 1, {"model.rope.width = 4096 must be even"}},
    {{"model.architecture=gpt2", "model.rope.width=2"},
     1,
     {"model.rope.width = 2 has no meaning with model.architecture = \"gpt2\""}},
    {{"model.rope.layers=[1]"},
     1,
     {"does not have as many numbers as there are layers, model.layers = 2"}},
    {{"model.rope.sliding_theta=100"},
     1,
     {"model.rope.sliding_theta = 100.0 has no meaning with model.window = 0"}},
    {{"model.rope.short_divisors=[1]"},
     1,
     {"model.rope.short_divisors = [1.0] has no meaning with model.rope.scaling"}},
    {{"model.rope.scaling=longrope", "model.rope.original=8", "model.rope.width=4",
      "model.rope.short_divisors=[1,2]", "model.rope.long_divisors=[1]"},
     1,
     {"model.rope.long_divisors = [1.0] has 1 numbers, and 2 pairs of each head turn"}},
    {{"model.rope.scaling=dynamic", "model.rope.original=8", "model.rope.width=2"},
     1,
     {"changes the base of two pairs of each head at least"}},
    {{"model.rope.scaling=dynamic", "model.rope.original=8",
      "model.rope.attention_factor=2"},
     1,
     {"model.rope.attention_factor = 2.0 has no meaning with model.rope.scaling"}},
    {{"model.rope.scaling=dynamic"},
     1,
     {"model.rope.original = 0.0: write how many positions the model had before"}},
    {{"model.architecture=qwen2", "model.attention_bias=true"},
     1,
     {"model.attention_bias = true has no meaning with model.architecture = \"qwen2\""}},
    {{"data.source=tokens"},
     1,
     {"model.vocabulary must be given with data.source = \"tokens\""}},
    {{"model.embedding.pad_token=70000"},
     1,
     {"model.embedding.pad_token = 70000 lies outside model.vocabulary",
      "or -1 for none"}},
    {{"model.vocabulary=256"},
     1,
     {"model.vocabulary = 256", "data.source = \"bytes\"",
      "write model.vocabulary = 257"}},
    // tensor and sequence
    {{"parallel.tensor=3", "batch.global=2"},
     3,
     {"model.heads = 4 must be divisible by parallel.tensor = 3: write parallel.tensor = "
      "2 and start 2 ranks",
      "sample.toml:4:15"}},
    {{"parallel.tensor=4", "model.feed_forward=3"},
     4,
     {"model.feed_forward = 3 is less than parallel.tensor = 4", "write"}},
    {{"parallel.tensor=4", "data.source=synthetic", "data.paths=[]",
      "model.vocabulary=3"},
     4,
     {"model.vocabulary = 3 is less than parallel.tensor = 4", "write"}},
    {{"parallel.tensor=4", "parallel.sequence=true", "model.sequence=33"},
     4,
     {"batch.micro = 1 x model.sequence = 33 must be divisible by parallel.tensor = 4 "
      "with "
      "parallel.sequence = true: write model.sequence = 36"}},
    // context
    {{"parallel.context=2", "model.sequence=30"},
     2,
     {"model.sequence = 30 must be divisible by 2 x parallel.context = 2 with zigzag "
      "order: write model.sequence = 32"}},
    {{"parallel.context=2", "model.sequence=31", "parallel.context_order=contiguous"},
     2,
     {"model.sequence = 31 must be divisible by parallel.context = 2: write "
      "model.sequence = 32"}},
    {{"parallel.context=2", "parallel.context_method=ulysses",
      "parallel.context_order=zigzag"},
     2,
     {"parallel.context_order = \"zigzag\" has no meaning with "
      "parallel.context_method = \"ulysses\""}},
    {{"parallel.context=2", "parallel.tensor=4", "parallel.context_method=ulysses"},
     8,
     {"model.heads = 4 / parallel.tensor = 4 must be divisible by parallel.context = 2",
      "write parallel.context = 1"}},
    // pipeline
    {{"parallel.pipeline=2", "parallel.schedule=zb_v"},
     2,
     {"parallel.schedule = \"zb_v\" with parallel.virtual_stages = 1"}},
    {{"parallel.pipeline=2", "parallel.virtual_stages=2", "model.layers=4"},
     2,
     {"parallel.schedule = \"1f1b\" with parallel.virtual_stages = 2",
      "write parallel.virtual_stages = 1"}},
    {{"parallel.pipeline=2", "parallel.schedule=interleaved"},
     2,
     {"parallel.schedule = \"interleaved\" with parallel.virtual_stages = 1"}},
    {{"parallel.pipeline=4", "model.layers=1"},
     4,
     {"model.layers = 1 is less than parallel.pipeline = 4 x parallel.virtual_stages = 1 "
      "= 4 stages, of which only the embedding's and the head's need no block"}},
    {{"parallel.pipeline=4", "model.layers=4", "parallel.stage_layers=[0, 4, 0, 0]"},
     4,
     {"parallel.stage_layers = [0, 4, 0, 0] has a stage without anything to do"}},
    {{"parallel.pipeline=2", "model.layers=3", "parallel.stage_layers=[1, 1]"},
     2,
     {"parallel.stage_layers = [1, 1] has 2 numbers with the sum 2", "model.layers = 3"}},
    {{"parallel.pipeline=2", "model.layers=3", "parallel.stage_layers=[3]"},
     2,
     {"has 1 numbers", "makes 2 stages"}},
    // sharding
    {{"parallel.shard_group=2", "parallel.sharding_strategy=FULL_SHARD"},
     4,
     {"parallel.shard_group = 2 has no meaning with parallel.sharding_strategy"}},
    {{"parallel.shard_group=3", "parallel.sharding_strategy=HYBRID_SHARD"},
     4,
     {"parallel.shard_group = 3 must divide the 4 data x context ranks: write "
      "parallel.shard_group = 2"},
     Status::resources},
    {{"parallel.prefetch=2"}, 2, {"parallel.prefetch = 2 has no meaning"}},
    {{"parallel.gathered_units=3", "parallel.sharding_strategy=ZERO1"},
     2,
     {"parallel.gathered_units = 3 has no meaning"}},
    {{"parallel.gathered_units=1", "parallel.sharding_strategy=FULL_SHARD",
      "model.tie_embeddings=true"},
     2,
     {"parallel.gathered_units = 1 is too few with model.tie_embeddings = true"}},
    {{"parallel.offload=weights", "parallel.sharding_strategy=SHARD_GRAD_OP"},
     2,
     {"parallel.offload = \"weights\" has no meaning"}},
    {{"parallel.offload=disk_weights", "parallel.offload_directory=/tmp",
      "parallel.sharding_strategy=ZERO1"},
     2,
     {"parallel.offload = \"disk_weights\" has no meaning"}},
    {{"parallel.offload=disk_weights", "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"parallel.offload = \"disk_weights\" with parallel.offload_directory = \"\""}},
    {{"parallel.offload_fraction=0.5"},
     1,
     {"parallel.offload_fraction = 0.5 has no meaning with parallel.offload = \"none\""}},
    {{"parallel.offload=weights", "parallel.offload_fraction=0.5",
      "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"parallel.offload_fraction = 0.5 has no meaning", "\"weights\""}},
    {{"parallel.offload_directory=/tmp"},
     1,
     {"parallel.offload_directory = \"/tmp\" has no meaning"}},
    {{"parallel.offload=disk"},
     1,
     {"parallel.offload = \"disk\" with parallel.offload_directory = \"\"",
      "write parallel.offload_directory = \"/tmp\""}},
    {{"parallel.offload=disk", "parallel.offload_directory=scratch"},
     1,
     {"parallel.offload_directory = \"scratch\"", "has to begin with '/'"}},
    {{"parallel.offload_activations_fraction=0.5"},
     1,
     {"parallel.offload_activations_fraction = 0.5 has no meaning with "
      "parallel.offload_activations = false",
      "write parallel.offload_activations = true"}},
    {{"parallel.offload_activations=true", "parallel.pipeline=2",
      "parallel.schedule=zb_h1"},
     2,
     {"parallel.offload_activations = true with parallel.schedule = \"zb_h1\"",
      "write parallel.schedule = \"1f1b\" or parallel.offload_activations = false"}},
    {{"parallel.wrap=size", "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"parallel.wrap = \"size\" with parallel.wrap_parameters = 0"}},
    {{"parallel.wrap_parameters=9", "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"parallel.wrap = \"block\" with parallel.wrap_parameters = 9"}},
    {{"parallel.wrap=size", "parallel.wrap_parameters=9"},
     2,
     {"parallel.wrap = \"size\" has no meaning with parallel.sharding_strategy"}},
    {{"parallel.wrap=names", "parallel.sharding_strategy=ZERO1"}, 2, {"needs names"}},
    {{"parallel.wrap=names", "parallel.wrap_names=[\"head\", \"block 2\"]",
      "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"names a module that there is not"}},
    // recomputation
    {{"recompute.policy=selective"}, 1, {"recompute.pieces = []", "selective needs"}},
    {{"recompute.policy=full", "recompute.pieces=[\"norm\"]"},
     1,
     {"recompute.policy = \"full\" with recompute.pieces"}},
    {{"recompute.policy=selective", "recompute.pieces=[\"norms\"]"},
     1,
     {"names a piece that there is not", "norm, attention, activation and up"}},
    {{"recompute.layers=1"},
     1,
     {"recompute.layers = 1 with recompute.policy = \"none\""}},
    {{"recompute.layers=9", "recompute.policy=full"},
     1,
     {"recompute.layers = 9 with recompute.policy = \"full\" and model.layers = 2"}},
    {{"recompute.partition=true", "recompute.policy=full"},
     1,
     {"recompute.partition = true needs", "parallel.tensor = 1"}},
    {{"recompute.partition=true", "recompute.policy=full", "parallel.tensor=4",
      "model.sequence=30"},
     4,
     {"recompute.partition = true: batch.micro = 1 x model.sequence = 30"}},
    // parameter groups
    {{"optimizer.groups=[\"model.norm.weight\"]"}, 1, {"says nothing of its tensors"}},
    {{"optimizer.groups=[\"model.norm.weight frosted\"]"},
     1,
     {"'frosted'", "followed by frozen, learning_rate=X or weight_decay=X"}},
    {{"optimizer.groups=[\"model.norm.weight learning_rate=fast\"]"},
     1,
     {"'fast'", "is not a number"}},
    {{"optimizer.groups=[\"model.norm.weight frozen learning_rate=1\"]"},
     1,
     {"what is frozen has no learning_rate"}},
    {{"optimizer.groups=[\"transformer.* frozen\"]"},
     1,
     {"the pattern \"transformer.*\" fits no tensor", "model.embed_tokens.weight"}},
    {{"optimizer.groups=[\"*k_proj* frozen\"]"},
     1,
     {"fits some of model.layers.0.self_attn.q_proj.weight", "stored together"}},
    {{"optimizer.groups=[\"* frozen\"]"}, 1, {"freezes every tensor", "leave some"}},
    {{"optimizer.groups=[\"*lora_* frozen\"]", "adapter.rank=2"},
     1,
     {"freezes every tensor"}},
    // ranks and batch
    {{"parallel.tensor=2"},
     3,
     {"parallel.tensor = 2 x parallel.context = 1 x parallel.pipeline = 1 = 2 must "
      "divide "
      "the number of ranks, 3: start 2 or 4 ranks"},
     Status::resources},
    {{"parallel.tensor=4"},
     2,
     {"the number of ranks, 2: start 4 ranks"},
     Status::resources},
    {{"batch.micro=3"},
     1,
     {"batch.global = 8 must be divisible by batch.micro = 3: write batch.global = 9 or "
      "batch.micro = 2"}},
    {{"batch.micro=4"},
     3,
     {"batch.global = 8 is less than a microbatch, batch.micro = 4, for each of 3 data "
      "ranks (3 ranks / parallel.tensor = 1): write batch.global = 12, or start 2 ranks"},
     Status::resources},
    {{"parallel.tensor=2", "batch.global=3"},
     8,
     {"batch.global = 3", "each of 4 data ranks", "batch.global = 4, or start 6 ranks"},
     Status::resources},
    // sizes
    {{"batch.micro=1000000000", "batch.global=1000000000", "model.sequence=32"},
     1,
     {"batch.micro = 1000000000 x model.sequence = 32", "2147483648"}},
    {{"run.steps=1000000000000", "batch.global=1000", "model.sequence=134217728"},
     1,
     {"run.steps = 1000000000000 x batch.global = 1000 x model.sequence", "2^62"}},
    {{"batch.global=65537"},
     1,
     {"batch.global = 65537 in microbatches of batch.micro = 1"}},
    {{"model.layers=100000", "model.hidden=16777216", "model.feed_forward=268435456"},
     1,
     {"model.layers = 100000", "model.hidden = 16777216", "2^50 weights", "write"}},
    // data
    {{"data.paths=[]"}, 1, {"data.source = \"bytes\" needs files: write data.paths"}},
    {{"data.source=synthetic", "model.vocabulary=7"},
     1,
     {"data.paths = [\"README.md\"] has no meaning with data.source = \"synthetic\""}},
    {{"data.source=synthetic", "model.vocabulary=7", "data.paths=[]",
      "data.validation_paths=[\"a\"]"},
     1,
     {"data.validation_paths = [\"a\"] has no meaning with data.source"}},
    {{"data.fim_rate=0.5"}, 1, {"data.fim_rate = 0.5 cuts text", "\"bytes\""}},
    {{"data.fim_spm=0.1"}, 1, {"data.fim_spm = 0.1 has no meaning with data.fim_rate"}},
    {{"data.fim_rate=0.5", "data.source=text", "data.tokenizer=\"x\"",
      "model.vocabulary=300", "data.fim_tokens=[\"a\"]"},
     1,
     {"data.fim_tokens = [\"a\"] must name three tokens"}},
    {{"batch.ramp=[\"4 to 5\"]"}, 1, {"batch.ramp: \"4 to 5\" is no part of a ramp"}},
    {{"batch.ramp=[\"2 until 9k\", \"4 until 9000\"]"},
     1,
     {"batch.ramp: \"4 until 9000\" ends before the part before it"}},
    {{"batch.ramp=[\"100000 until 1M\"]"},
     1,
     {"has 100000 sequences, more than batch.global"}},
    {{"batch.sequence_ramp=[\"7 until 1M\"]"},
     1,
     {"cuts after 7 tokens, which does not divide model.sequence"}},
    {{"metrics.sample_every=5"},
     1,
     {"metrics.sample_every = 5 needs beginnings of texts", "write"}},
    {{"metrics.sample_every=5", "metrics.sample_prompts=[\"a\"]", "data.source=tokens",
      "model.vocabulary=300"},
     1,
     {"metrics.sample_every = 5 writes text, but data.source = \"tokens\"", "write"}},
    {{"metrics.sample_prompts=[\"a\"]"},
     1,
     {"metrics.sample_prompts", "metrics.sample_every = 0", "remove it"}},
    {{"metrics.validate_every=5"},
     1,
     {"metrics.validate_every = 5", "data.validation_paths = []", "write"}},
    // precision
    {{"precision.compute=fp64", "precision.gradient_reduce=fp32"},
     1,
     {"precision.gradient_reduce = \"fp32\"", "precision.compute = \"fp64\"",
      "write precision.gradient_reduce = \"auto\""}},
    {{"precision.gradient_reduce=fp16"},
     1,
     {"precision.gradient_reduce = \"fp16\": gradient traffic in fp16", "overflow",
      "not available yet; write precision.gradient_reduce = \"auto\""}},
    {{"precision.rounding=stochastic"},
     1,
     {"precision.rounding = \"stochastic\" with precision.recipe", "weights in fp32",
      "write precision.rounding = \"auto\""}},
    {{"precision.logits=compute"},
     1,
     {"precision.logits = \"compute\" has no meaning with precision.compute = \"fp32\"",
      "write precision.logits = \"auto\""}},
    {{"precision.logits=compute", "precision.compute=bf16", "model.logit_cap=30.0"},
     1,
     {"precision.logits = \"compute\" with model.logit_cap = 30",
      "write precision.logits = \"fp32\""}},
    {{"precision.error_feedback=true"},
     1,
     {"precision.error_feedback = true", "travel in fp32: nothing is rounded",
      "write precision.error_feedback = false"}},
    {{"precision.error_feedback=true", "precision.compute=fp16",
      "precision.gradient_reduce=bf16"},
     1,
     {"precision.error_feedback = true with precision.compute = \"fp16\"",
      "write precision.error_feedback = false"}},
    {{"precision.keep_weight_codes=true"},
     1,
     {"precision.keep_weight_codes = true has no meaning with precision.compute = "
      "\"fp32\"",
      "write precision.keep_weight_codes = false"}},
    {{"precision.keep_weight_codes=true", "precision.compute=fp8", "model.hidden=64",
      "model.feed_forward=64", "batch.micro=2", "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"precision.keep_weight_codes = true with parallel.sharding_strategy = "
      "\"FULL_SHARD\"",
      "write precision.keep_weight_codes = false, or parallel.sharding_strategy"}},
    {{"precision.recipe=bf16"},
     1,
     {"precision.recipe = \"bf16\" multiplies in bf16, which contradicts "
      "precision.compute = \"fp32\": write precision.compute = \"bf16\""}},
    {{"precision.compute=fp8", "precision.recipe=mxfp8", "run.device=cuda",
      "model.feed_forward=64"},
     1,
     {"precision.recipe = \"mxfp8\" and run.device = \"cuda\"",
      "write precision.recipe = \"te_blocks\" or run.device = \"cpu\""}},
    {{"precision.weights=fp64"}, 1, {"precision.weights = \"fp64\"", "of no use"}},
    {{"precision.first_bf16=1"},
     1,
     {"precision.first_bf16 = 1 has no meaning with precision.compute = \"fp32\""}},
    // optimizer
    {{"optimizer.betas=[0.9]"}, 1, {"optimizer.betas = [0.9]", "two elements"}},
    {{"optimizer.betas=[0.9, 0.9, 0.9]"}, 1, {"two elements", "write [0.9, 0.95]"}},
    {{"optimizer.schedule.name=wsd"},
     1,
     {"optimizer.schedule.decay = 0", "optimizer.schedule.name = \"wsd\"",
      "write optimizer.schedule.decay = 2"}},
    {{"optimizer.schedule.decay=3"},
     1,
     {"optimizer.schedule.decay = 3 has no meaning with optimizer.schedule.name = "
      "\"constant\""}},
    {{"optimizer.schedule.name=cosine", "optimizer.schedule.warmup=8",
      "optimizer.schedule.decay=3"},
     1,
     {"optimizer.schedule.warmup = 8 and optimizer.schedule.decay = 3 together exceed "
      "run.steps = 10: write run.steps = 11"}},
    {{"optimizer.schedule.warmup=11"},
     1,
     {"optimizer.schedule.warmup = 11 exceeds run.steps"}},
    // adapters
    {{"adapter.dora=true"}, 1, {"adapter.dora", "adapter.rank = 0"}},
    {{"adapter.rank=2", "adapter.dora=true"},
     1,
     {"adapter.dora = true starts from the lengths of rows", "model.from"}},
    {{"adapter.rank=2", "adapter.dora=true", "adapter.dropout=0.1", "model.from=x"},
     1,
     {"adapter.dora = true and adapter.dropout = 0.1 cannot go together"}},
    {{"adapter.rank=2", "adapter.dora=true", "run.device=cuda", "model.from=x"},
     1,
     {"adapter.dora = true and run.device = \"cuda\"", "run.device = \"cpu\""}},
    {{"adapter.quantize=nf4"}, 1, {"adapter.quantize", "adapter.rank = 0"}},
    {{"adapter.rank=2", "adapter.quantize=nf4", "run.device=cuda",
      "run.cuda_graphs=true"},
     1,
     {"adapter.quantize = \"nf4\" and run.cuda_graphs = true",
      "run.cuda_graphs = false"}},
    {{"adapter.rank=2", "adapter.quantize=stored", "precision.compute=fp8",
      "model.feed_forward=64"},
     1,
     {"adapter.quantize = \"stored\"", "which multiplies in FP8"}},
    // run, checkpoint, debug
    {{"run.name=a/b"}, 1, {"run.name = \"a/b\"", "run.directory = \"\"", "write"}},
    {{"run.name=\"\"", "run.directory=a"}, 1, {"run.name = \"\"", "no name for logs"}},
    {{"checkpoint.resume=\"\""}, 1, {"checkpoint.resume = \"\"", "never"}},
    {{"checkpoint.partner_directory=/tmp"},
     1,
     {"checkpoint.partner_directory = \"/tmp\"", "checkpoint.partner = 0"}},
    {{"checkpoint.partner=5", "checkpoint.partner_directory=memory"},
     1,
     {"checkpoint.partner_directory = \"memory\"", "begin with"}},
    {{"attention.deterministic=false", "attention.library=own"},
     1,
     {"attention.deterministic = false", "attention.library = \"own\""}},
    {{"debug.dump_gradients=[1, 11]"},
     1,
     {"debug.dump_gradients = [1, 11]", "run.steps = 10"}},
    {{"debug.fault=kill@11@0"}, 1, {"debug.fault = \"kill@11@0\"", "run.steps = 10"}},
    {{"debug.fault=kill_reference@1@0"},
     1,
     {"debug.fault = \"kill_reference@1@0\"", "train.objective = \"next_token\""}},
    {{"debug.fault=kill@1@2"},
     2,
     {"names rank 2", "write a rank below 2"},
     Status::resources},
};

TEST(RunConfigRules, EachRuleBroken) {
  for (const auto& wrong : cases) expect_one_problem(wrong);
}

TEST(RunConfigRules, MalformedFaults) {
  for (const char* fault : {"kill", "kill@3", "burn@1@0", "kill@0@0", "kill@-1@0",
                            "kill@1@-1", "kill@@0", "kill@1@", "kill@1@0@0", "@1@0",
                            "kill@ 1@0", "kill@1.0@0", "kill@99999999999999999999@0"})
    expect_one_problem({{std::string("debug.fault=") + fault},
                        1,
                        {"must be kind@step@rank with kind exit, throw, kill, hang, "
                         "stop, slow_copy, nan"}});
}

// Everything that is known but cannot be done yet names what to write instead.
TEST(RunConfigRules, NotAvailableYet) {
  const std::vector<std::array<std::string, 3>> wishes = {
      {"comm.deterministic", "false", "true"},
  };
  for (const auto& [key, value, instead] : wishes)
    expect_one_problem({{key + "=" + value},
                        2,
                        {"command line: " + key + " = ",
                         "not available yet; write " + key + " = ", instead}});
}

// Words of other programs that this one has nothing for are no words of the deck: the
// message lists those that are.
TEST(RunConfigRules, WordsThatNothingIsBehind) {
  const std::vector<std::array<std::string, 3>> wishes = {
      {"data.source", "parquet", "\"bytes\", \"tokens\", \"megatron\""},
      {"parallel.offload", "activations", "\"none\", \"optimizer\", \"weights\""},
      {"optimizer.name", "adafactor", "\"adamw\", \"sgd\""},
  };
  for (const auto& [key, value, instead] : wishes)
    expect_one_problem({{key + "=" + value, "model.vocabulary=300"},
                        2,
                        {"command line: " + key + " = ", "must be one of ", instead},
                        Status::command_line});
}

TEST(RunConfigRules, DataSources) {
  const std::string blend = "data.source=blend";
  expect_one_problem({{"data.source=text", "model.vocabulary=300"},
                      2,
                      {"data.source = \"text\"", "data.tokenizer = \"tokenizer.json\""}});
  expect_one_problem({{"data.tokenizer=mine.json"}, 2, {"which has no words to cut"}});
  expect_one_problem(
      {{"data.blend=[\"1 bytes a\"]"}, 2, {"write data.source = \"blend\""}});
  expect_one_problem({{blend, "data.paths=[]", "model.vocabulary=300"},
                      2,
                      {"needs its parts: write data.blend"}});
  expect_one_problem({{blend, "data.paths=[]", "model.vocabulary=300",
                       "data.blend=[\"1 tokens a\", \"one tokens b\"]"},
                      2,
                      {"\"one tokens b\"", "weight above 0"}});
  expect_one_problem({{blend, "data.paths=[\"a\"]", "model.vocabulary=300",
                       "data.blend=[\"1 tokens a\"]"},
                      2,
                      {"whose paths stand in data.blend"}});
}

// Keys of conversations.
TEST(RunConfigRules, ChatNeedsATokenizerAndItsKeysNeedChat) {
  expect_one_problem({{"data.source=chat", "model.vocabulary=300"},
                      2,
                      {"data.source = \"chat\"", "data.tokenizer = \"tokenizer.json\""}});
  for (const char* key : {"data.loss_on=all", "data.chat_template=a.jinja",
                          "data.template_date=\"2026-01-31\""})
    expect_one_problem({{key}, 2, {"write data.source = \"chat\""}});
}

TEST(RunConfigRules, Packing) {
  const std::string packed = "data.packing=concatenate";
  expect_one_problem(
      {{packed, "data.source=synthetic", "data.paths=[]", "model.vocabulary=300"},
       2,
       {"which has no documents"}});
  expect_one_problem({{"data.end_token=7"}, 2, {"data.packing = \"none\"", "remove it"}});
  expect_one_problem({{packed, "data.end_token=257"},
                      2,
                      {"data.end_token = 257 lies outside model.vocabulary"}});
}

TEST(RunConfigRules, AllBrokenRulesTogether) {
  const auto [message, status] = error_of([&] {
    config::make_run_config(
        parse_sample({"parallel.tensor=3", "batch.micro=3", "comm.deterministic=false"}),
        4);
  });
  EXPECT_EQ(status, Status::bad_content);
  EXPECT_EQ(count_lines(message), 4) << message;
  expect_contains(message, "summing in any order is not available yet");
  expect_contains(message, "must divide the number of ranks");
}

TEST(RunConfigRules, LegalMeshes) {
  for (const int tensor : {1, 2, 4})
    for (const int data : {1, 2, 4}) {
      const auto config = config::make_run_config(
          parse_sample({"parallel.tensor=" + std::to_string(tensor),
                        "parallel.sequence=true", "model.kv_heads=1"}),
          tensor * data);
      EXPECT_EQ(config.parallel.mesh.size(), tensor * data);
      EXPECT_EQ(config.microbatches(), 8 / data);
    }
}

}  // namespace
}  // namespace trireme::test
