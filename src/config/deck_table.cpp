// The table of all deck keys: the only place where a key is declared.
// A new key is one row here, and one read in run_config.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "config/deck_table.hpp"

#include <array>
#include <limits>
#include <string_view>

namespace trireme::config {

namespace {

using io::DeckKey;
using io::KeyType;
using Text = std::string_view;

constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr double most_steps = 1e12;

constexpr DeckKey boolean(Text section, Text name, Text fallback, Text doc) {
  return {section, name, KeyType::boolean, "", fallback, -unbounded, unbounded, "", doc};
}

constexpr DeckKey integer(Text section, Text name, Text unit, Text fallback,
                          double minimum, double maximum, Text doc) {
  return {section, name, KeyType::integer, unit, fallback, minimum, maximum, "", doc};
}

constexpr DeckKey real(Text section, Text name, Text fallback, double minimum,
                       double maximum, Text doc) {
  return {section, name, KeyType::real, "", fallback, minimum, maximum, "", doc};
}

constexpr DeckKey above(DeckKey key) {
  key.minimum_excluded = true;
  return key;
}

constexpr DeckKey below(DeckKey key) {
  key.maximum_excluded = true;
  return key;
}

constexpr DeckKey seconds(Text section, Text name, Text fallback, Text doc) {
  return {section, name, KeyType::seconds, "seconds", fallback, 0, 1e9, "", doc};
}

constexpr DeckKey text(Text section, Text name, Text fallback, Text choices, Text doc) {
  return {section,    name,      KeyType::text, "", fallback,
          -unbounded, unbounded, choices,       doc};
}

constexpr DeckKey ranged(KeyType type, Text section, Text name, Text unit, Text fallback,
                         double minimum, double maximum, Text doc) {
  return {section, name, type, unit, fallback, minimum, maximum, "", doc};
}

constexpr std::array run_keys = {
    text("run", "name", "\"run\"", "", "Name of the run, for logs and plots."),
    text("run", "directory", "\"\"", "",
         "Where the run writes: metrics, checkpoints, deck; empty: runs/<run.name>."),
    integer("run", "steps", "steps", "", 1, most_steps, "Optimizer steps to train for."),
    integer("run", "seed", "", "1", 0, unbounded,
            "Seed of initial weights, sample order and synthetic data."),
    text("run", "device", "\"auto\"", "auto|cpu|cuda",
         "Where to compute: cpu, cuda (a GPU for each rank), or auto: GPUs where the "
         "program was built for them and every rank's node has one, else the CPU."),
    boolean("run", "share_gpus", "false",
            "Let several ranks of a node compute on one GPU, for tests: slow."),
    boolean("run", "cuda_graphs", "false",
            "Record the kernels of a microbatch once and launch them as CUDA graphs: "
            "gains where kernels are short. For plain precisions on data ranks alone."),
    integer("run", "threads", "", "0", 0, 4096,
            "Threads of each rank; 0: the node's cores shared out over its ranks."),
    seconds("run", "time_limit", "0",
            "Stop with a checkpoint before this much time has passed; 0: no limit."),
};

constexpr std::array model_keys = {
    text("model", "architecture", "\"llama\"", "llama|gpt2|mixtral|deepseek_moe",
         "llama: RMSNorm, rotary positions, SwiGLU; gpt2: LayerNorm, learned positions, "
         "biases, GELU; mixtral and deepseek_moe: llama with experts (model.moe)."),
    integer("model", "layers", "", "", 1, 1e5, "Transformer blocks."),
    integer("model", "hidden", "", "", 1, 1 << 24, "Width of the model."),
    integer("model", "heads", "", "", 1, 1 << 20, "Attention heads; divides hidden."),
    integer(
        "model", "kv_heads", "", "0", 0, 1 << 20,
        "Key and value heads (grouped attention); divides heads; 0: as many as heads."),
    integer(
        "model", "feed_forward", "", "0", 0, 1 << 28,
        "Width inside the MLP; 0: 4 hidden for gpt2, and for llama 8/3 hidden rounded "
        "up to a multiple of 64."),
    integer(
        "model", "vocabulary", "", "0", 0, 2147483647,
        "Number of tokens; 0: 257 for data.source = \"bytes\", else it must be given."),
    integer("model", "sequence", "tokens", "", 1, 1 << 27,
            "Length of a training sequence; for gpt2 also the number of positions."),
    above(real("model", "rope_theta", "10000.0", 0, 1e12,
               "Base of the rotary positions; llama only.")),
    above(real("model", "norm_eps", "1e-05", 0, 1,
               "Added to the variance in RMSNorm and LayerNorm.")),
    boolean("model", "tie_embeddings", "false",
            "Use the embedding as output matrix as well (GPT-2 as published: true)."),
    real("model", "initializer_range", "0.02", 0, 10,
         "Standard deviation of the initial weights."),
    real("model", "z_loss", "0.0", 0, 1,
         "Weight of the square of log(sum of exp of logits) in the loss; 0: none."),
    text("model", "from", "\"\"", "",
         "Model to start from; not available yet: leave it empty."),
};

constexpr std::array moe_keys = {
    integer("model.moe", "experts", "", "0", 0, 1 << 20,
            "Experts of a layer; needed by mixtral and deepseek_moe, 0 for others."),
    integer("model.moe", "top_k", "", "2", 1, 1 << 20, "Experts that a token uses."),
    integer("model.moe", "shared_experts", "", "0", 0, 1 << 16,
            "Experts that every token uses besides; deepseek_moe only."),
    integer("model.moe", "expert_feed_forward", "", "0", 0, 1 << 28,
            "Width inside one expert; 0: model.feed_forward."),
    integer("model.moe", "dense_layers", "", "0", 0, 1e5,
            "First layers that have an ordinary MLP; deepseek_moe only."),
    text("model.moe", "router", "\"softmax\"", "softmax|sigmoid",
         "How a router's logits become scores; sigmoid for deepseek_moe only."),
    boolean("model.moe", "normalise", "true",
            "Make the weights of a token's experts sum to model.moe.scaling."),
    above(real("model.moe", "scaling", "1.0", 0, 1e6,
               "Factor of the weights of a token's experts.")),
    real(
        "model.moe", "capacity_factor", "0.0", 0, 1e6,
        "An expert takes at most this times its even share of a sequence's tokens, later "
        "ones pass it by; 0: it takes all."),
    real("model.moe", "aux_loss", "0.0", 0, 1e3,
         "Weight of the balance loss of each sequence."),
    real("model.moe", "z_loss", "0.0", 0, 1e3,
         "Weight of the square of the routers' log-sum-exp."),
    boolean("model.moe", "choice_bias", "false",
            "Add a bias to the scores when experts are chosen; deepseek_moe only."),
    real("model.moe", "bias_update_rate", "0.0", 0, 1e3,
         "How much that bias moves towards an even load after each step."),
};

constexpr std::array data_keys = {
    text("data", "source", "\"bytes\"", "bytes|tokens|synthetic|megatron|llmc",
         "bytes: files as they are; tokens: HDF5 files with a dataset tokens; synthetic: "
         "a "
         "Markov chain of known entropy; megatron and llmc are not available yet."),
    ranged(KeyType::texts, "data", "paths", "", "[]", -unbounded, unbounded,
           "Files to train on, or globs such as docs/*.md; relative ones are relative to "
           "the "
           "current directory; empty for synthetic."),
    ranged(KeyType::texts, "data", "validation_paths", "", "[]", -unbounded, unbounded,
           "Files to validate on, as data.paths; empty for synthetic."),
    text("data", "tokenizer", "\"\"", "",
         "Tokenizer of text files; not available yet: leave it empty."),
};

constexpr std::array batch_keys = {
    integer("batch", "global", "sequences", "", 1, 1e9,
            "Sequences per step over all ranks; divisible by batch.micro x data ranks."),
    integer("batch", "micro", "sequences", "1", 1, 1e9,
            "Sequences of one forward and backward pass of one data rank."),
};

constexpr std::array parallel_keys = {
    integer("parallel", "tensor", "ranks", "1", 1, 1e6,
            "Ranks that share each layer's matrices and heads; divides heads. Data "
            "parallelism is what remains of the ranks."),
    boolean("parallel", "sequence", "false",
            "Split norms and residuals over the tensor ranks along the sequence."),
    integer("parallel", "tensor_chunks", "parts", "1", 1, 1024,
            "Parts of the rows of a product whose result is summed over the tensor "
            "ranks: one travels while the next is multiplied."),
    integer("parallel", "context", "ranks", "1", 1, 1e6,
            "Ranks that share each sequence in attention."),
    text("parallel", "context_method", "\"ring\"", "ring|ulysses",
         "How context ranks attend to each other: ring sends keys and values round; "
         "ulysses swaps positions for heads, which context must divide."),
    text("parallel", "context_order", "\"auto\"", "auto|zigzag|contiguous",
         "Which positions a context rank holds; zigzag gives all the same work; auto: "
         "zigzag for ring, contiguous for ulysses."),
    integer("parallel", "pipeline", "ranks", "1", 1, 1e6,
            "Ranks that hold the model's layers one after the other."),
    text("parallel", "schedule", "\"1f1b\"",
         "gpipe|1f1b|interleaved|zb_h1|zb_v|dualpipe_v",
         "Order of forwards and backwards on the pipeline ranks."),
    integer("parallel", "virtual_stages", "stages", "1", 1, 1e5,
            "Stages of each pipeline rank: 2 for zb_v and dualpipe_v, 2 or more for "
            "interleaved, else 1."),
    ranged(KeyType::integers, "parallel", "stage_layers", "blocks", "[]", 1, 1e5,
           "Blocks of each stage, in order; empty: by work, the head's included."),
    integer("parallel", "expert", "ranks", "1", 1, 1e6,
            "Ranks, of the data and context ranks, that share out the experts."),
    text("parallel", "sharding_strategy", "\"NO_SHARD\"",
         "NO_SHARD|ZERO1|SHARD_GRAD_OP|FULL_SHARD|HYBRID_SHARD",
         "What data and context ranks share out instead of repeating: nothing; the "
         "optimizer's state; gradients too; weights too; or all of it within groups of "
         "shard_group ranks."),
    integer("parallel", "shard_group", "ranks", "0", 0, 1e6,
            "Ranks that share out one copy with HYBRID_SHARD; 0: those of a node."),
    text("parallel", "wrap", "\"block\"", "block|size",
         "What is sharded and gathered as one unit: each block, or as many modules as "
         "make wrap_parameters."),
    integer("parallel", "wrap_parameters", "parameters", "0", 0, 1e15,
            "Least size of a unit with wrap = \"size\"."),
    integer("parallel", "prefetch", "units", "1", 0, 1000,
            "Units gathered ahead with FULL_SHARD and HYBRID_SHARD."),
    integer("parallel", "gathered_units", "units", "0", 0, 1e5,
            "Most units gathered at once with FULL_SHARD and HYBRID_SHARD; 0: prefetch "
            "and those in use."),
    ranged(KeyType::bytes, "parallel", "bucket_bytes", "bytes", "\"25 MiB\"", 1024,
           0x1p40,
           "Gradients of about this size are reduced over the data ranks together."),
    text(
        "parallel", "offload", "\"none\"", "none|optimizer|weights|activations",
        "What lives in the host's memory: the optimizer's state, which is updated there, "
        "or sharded weights as well; activations are not available yet."),
};

constexpr std::array comm_keys = {
    text("comm", "backend", "\"auto\"", "auto|mpi|nccl",
         "What carries collectives between GPUs: NCCL, or MPI through the host's memory; "
         "auto is NCCL where it is built in and every rank has a GPU of its own. Between "
         "CPUs it is MPI."),
    seconds(
        "comm", "timeout_seconds", "600",
        "A wait for other ranks that lasts longer ends the job with status 82; 0: wait "
        "for ever."),
    boolean(
        "comm", "deterministic", "true",
        "Sum in a fixed order, so that a repeated run gives the same bits; false is not "
        "available yet."),
};

constexpr std::array precision_keys = {
    text("precision", "compute", "\"fp32\"", "fp64|fp32|bf16|fp16|fp8",
         "Type of the operands of matrix products; fp64 is for proofs; fp16 comes with a "
         "dynamic loss scale; with fp8 the rest of the activations is bf16."),
    text("precision", "recipe", "\"auto\"",
         "auto|fp64|fp32|bf16|bf16_pure|bf16_autocast|bf16_fp32_sum|bf16_no_sum|fp16|"
         "te_delayed|te_current|te_blocks|mxfp8|ms_amp_o1|ms_amp_o2|ms_amp_o3|fp8_lm|"
         "deepseek_v3|nanotron_fp8",
         "Type and scaling of every class of tensor (docs/precision.md); auto: the one "
         "named as precision.compute, and te_current for fp8."),
    text("precision", "weights", "\"auto\"", "auto|fp64|fp32|bf16|fp16",
         "Type of the weights that forward and backward read; auto: the recipe's."),
    text("precision", "gradient_reduce", "\"auto\"", "auto|fp64|fp32|bf16|fp16|fp8",
         "Type of gradients on the wire; fp8 is E4M3 with a scale for each tensor; auto: "
         "the recipe's."),
    boolean("precision", "error_feedback", "false",
            "Keep what rounding takes from gradients on the wire and add it to the next "
            "ones; with gradients that travel in bf16 or fp8."),
    text("precision", "master", "\"auto\"", "auto|fp64|fp32|bf16|fp16",
         "Type of the weights that the optimizer updates; auto: the recipe's."),
    text("precision", "moments", "\"auto\"", "auto|fp64|fp32|bf16|fp16|fp8",
         "Type of the optimizer's moments; fp8 is E4M3 with a scale for each tensor; "
         "auto: the recipe's."),
    text("precision", "rounding", "\"auto\"", "auto|nearest|stochastic",
         "How master weights of bf16 or fp16 are rounded after an update; stochastic: up "
         "or "
         "down by chance, from run.seed, so that small steps are not lost; auto: the "
         "recipe's."),
    integer("precision", "first_bf16", "blocks", "0", 0, 1e5,
            "First blocks whose products stay in bf16 with fp8."),
    integer("precision", "last_bf16", "blocks", "0", 0, 1e5,
            "Last blocks whose products stay in bf16 with fp8."),
    integer("precision", "amax_history", "steps", "1024", 1, 1 << 20,
            "Steps whose largest magnitude sets the scale with delayed scaling."),
    integer("precision", "margin", "bits", "0", 0, 16,
            "Powers of two that delayed scaling leaves free above that magnitude."),
    integer(
        "precision", "report_every", "steps", "100", 0, 1 << 24,
        "Steps between reports of what rounding to FP8, and of gradients and state to "
        "16 bits, loses (docs/metrics.md); 0: none."),
    above(real("precision", "loss_scale", "65536.0", 0, 0x1p127,
               "First factor of the loss with fp16.")),
    integer("precision", "loss_scale_interval", "steps", "2000", 1, 1 << 24,
            "Steps without overflow after which the loss scale doubles."),
    above(real("precision", "loss_scale_floor", "1.0", 0, 0x1p127,
               "An overflow at this loss scale ends the run with status 80.")),
};

constexpr std::array recompute_keys = {
    text("recompute", "policy", "\"none\"", "none|selective|full",
         "Activations computed again in the backward pass: none, the pieces named, or "
         "whole blocks."),
    ranged(KeyType::texts, "recompute", "pieces", "", "[]", -unbounded, unbounded,
           "What selective recomputes: norm, attention, activation, up (outputs of the "
           "norms, the attention core, the activation function, the up projection)."),
    integer("recompute", "layers", "blocks", "0", 0, 1e5,
            "How many of the first blocks recompute; 0: all."),
    boolean("recompute", "partition", "false",
            "With full: split the inputs that are kept over the tensor ranks."),
};

constexpr std::array optimizer_keys = {
    text("optimizer", "name", "\"adamw\"", "adamw|sgd|lion|muon|adafactor",
         "adamw; sgd with betas[0] as momentum; lion, for which its authors use betas of "
         "[0.9, 0.99], a third to a tenth of AdamW's learning_rate and as much more "
         "weight_decay; muon for matrices, with adamw for embeddings, head, norms and "
         "biases; adafactor is not available yet."),
    real("optimizer", "learning_rate", "0.0003", 0, 1e6,
         "Peak learning rate, but for what optimizer.groups says."),
    below(
        ranged(KeyType::reals, "optimizer", "betas", "", "[0.9, 0.95]", 0, 1,
               "Decay of the first and second moment; sgd uses the first as momentum and "
               "not the second; lion, of the average that is followed and of that which "
               "is kept.")),
    above(real("optimizer", "eps", "1e-08", 0, 1,
               "Added to the root of the second moment; unused by sgd and lion.")),
    real("optimizer", "weight_decay", "0.1", 0, 1e6,
         "Decoupled weight decay; not applied to norms and biases unless a group says "
         "so."),
    real("optimizer", "clip", "1.0", 0, 1e30,
         "Largest global norm of the gradient; 0: no clipping."),
    ranged(
        KeyType::texts, "optimizer", "groups", "", "[]", -unbounded, unbounded,
        "Tensors trained in their own way, each as \"PATTERN frozen\" or \"PATTERN "
        "learning_rate=X weight_decay=X\"; * stands for anything. The rate is a peak "
        "of its own, also beside a learning_rate of 0, on the course of "
        "optimizer.schedule; the decay holds for norms and biases too. Of several that "
        "fit, the last that gives a value wins, and trains what an earlier one "
        "froze."),
    text(
        "optimizer.schedule", "name", "\"constant\"", "constant|linear|cosine|wsd",
        "Course of the learning rate after warm-up; wsd: constant, then a linear decay."),
    integer("optimizer.schedule", "warmup", "steps", "0", 0, most_steps,
            "Steps of linear warm-up from 0."),
    integer(
        "optimizer.schedule", "decay", "steps", "0", 0, most_steps,
        "Length of the decay; 0 for linear and cosine: to the last step; wsd needs it; "
        "constant has none."),
    real("optimizer.schedule", "final_fraction", "0.1", 0, 1,
         "Learning rate at the end, as a fraction of the peak; unused by constant."),
};

constexpr std::array muon_keys = {
    below(real("optimizer.muon", "momentum", "0.95", 0, 1,
               "Decay of the mean of gradients that a matrix follows.")),
    boolean(
        "optimizer.muon", "nesterov", "true",
        "The direction is the gradient drawn towards that mean, instead of the mean."),
    integer("optimizer.muon", "newton_schulz_steps", "steps", "5", 1, 100,
            "Steps that make the direction's singular values nearly equal."),
    text("optimizer.muon", "adjust_rate", "\"match_rms_adamw\"",
         "original|match_rms_adamw",
         "What the learning rate of a matrix is multiplied with. match_rms_adamw: 0.2 "
         "sqrt(max(rows, columns)), so that AdamW's learning rate and weight decay fit; "
         "original: sqrt(max(1, rows / columns))."),
};

constexpr std::array checkpoint_keys = {
    integer("checkpoint", "every", "steps", "0", 0, most_steps,
            "Steps between checkpoints; 0: one at the end only."),
    boolean(
        "checkpoint", "at_end", "true",
        "Write one when run.steps are done; false: for benchmarks. A signal or a time "
        "limit saves in any case."),
    integer("checkpoint", "keep", "checkpoints", "2", 0, 1e6,
            "How many of the newest are kept; 0: all."),
    integer("checkpoint", "keep_every", "steps", "0", 0, most_steps,
            "Checkpoints of multiples of this many steps are kept for ever; 0: none."),
    boolean("checkpoint", "async", "false",
            "Write a copy while training goes on; the copy takes as much memory of the "
            "host as the rank writes."),
    text("checkpoint", "resume", "\"auto\"", "",
         "auto: go on from the newest checkpoint if there is one; never: start anew; or "
         "the path of a checkpoint."),
    text("checkpoint", "load", "\"all\"", "all|one",
         "Who reads a checkpoint: every rank its part, or one rank, which hands each "
         "tensor out."),
    boolean("checkpoint", "load_on_mesh_change", "true",
            "Allow resuming from a checkpoint that another mesh wrote."),
};

constexpr std::array other_keys = {
    integer("metrics", "every", "steps", "1", 1, most_steps,
            "Steps between printed lines; metrics.jsonl has every step."),
    boolean("metrics", "tensorboard", "false",
            "Write TensorBoard event files to tensorboard/ under run.directory."),
    integer("metrics", "validate_every", "steps", "0", 0, most_steps,
            "Steps between validations; 0: none."),
    integer("metrics", "validate_sequences", "sequences", "64", 0, 1e12,
            "Sequences of one validation; 0: all there are."),
    text("health", "nan", "\"stop\"", "stop|skip",
         "What to do when loss or gradient is not finite, or too large to be used: stop "
         "the run, or skip the step."),
    seconds("health", "watchdog_seconds", "0",
            "Time without any progress of any rank that ends the job with status 82 and "
            "a report; 0: no watch."),
    real("health", "slow_factor", "5.0", 1, 1e6,
         "How many times watchdog_seconds the slow phases may take: the start, the first "
         "step, a checkpoint."),
    integer("health", "skip_limit", "steps", "10", 0, most_steps,
            "Skipped steps, of the last skip_window, beyond which the run ends with "
            "status 80."),
    integer("health", "skip_window", "steps", "100", 1, most_steps,
            "Steps over which skipped ones are counted."),
    text("health", "spike", "\"off\"", "off|skip|stop",
         "What to do when loss or gradient norm jumps: nothing, skip the step, or stop "
         "the run with status 80."),
    above(real("health", "spike_threshold", "6.0", 0, 1e6,
               "Standard deviations above the mean of the last spike_window sound steps "
               "that make a spike.")),
    integer("health", "spike_window", "steps", "128", 2, 1e6,
            "Sound steps that a spike is judged by; before there are as many, none is."),
    integer("health", "check_replicas_every", "steps", "0", 0, most_steps,
            "Steps between comparisons of what several ranks hold alike; a difference "
            "ends the job with status 81; 0: never."),
    boolean("debug", "check_collectives", "false",
            "Compare operation, type, count and number over the group before each "
            "collective; a difference ends the job with status 82. Slow."),
    ranged(KeyType::integers, "debug", "dump_gradients", "steps", "[]", 1, most_steps,
           "Steps whose unclipped gradients are written to gradients/step-XXXXXXXX.h5."),
    ranged(KeyType::integers, "debug", "dump_samples", "steps", "[]", 1, most_steps,
           "Steps whose samples are listed in samples/step-XXXXXXXX.jsonl: for each "
           "sequence its rank, microbatch, number in the source, file and place."),
    text("debug", "fault", "\"\"", "",
         "A fault to inject, for tests: kind@step@rank; kind: exit, throw, kill, hang, "
         "stop, slow_copy, nan, nan_loss, nan_gradient, spike, flip_sign, "
         "flip_exponent, flip_mantissa, flip_moment."),
};

template <std::size_t... N>
constexpr auto join(const std::array<DeckKey, N>&... parts) {
  std::array<DeckKey, (N + ...)> all{};
  std::size_t at = 0;
  const auto append = [&](const auto& part) {
    for (const auto& key : part) all[at++] = key;
  };
  (append(parts), ...);
  return all;
}

constexpr auto all_keys = join(run_keys, model_keys, moe_keys, data_keys, batch_keys,
                               parallel_keys, comm_keys, precision_keys, recompute_keys,
                               optimizer_keys, muon_keys, checkpoint_keys, other_keys);

}  // namespace

std::span<const io::DeckKey> deck_table() { return all_keys; }

}  // namespace trireme::config
