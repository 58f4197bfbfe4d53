// From the deck to one plain struct for each module.
// SPDX-License-Identifier: Apache-2.0
#include "config/run_config.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "config/deck_table.hpp"
#include "config/run_precision.hpp"
#include "config/run_rules.hpp"
#include "optim/parameter_groups.hpp"

namespace trireme::config {

namespace {

RunSettings read_run(const io::Deck& deck) {
  RunSettings run;
  run.name = deck.text("run.name");
  run.directory = deck.text("run.directory");
  if (run.directory.empty()) run.directory = "runs/" + run.name;
  run.steps = deck.integer("run.steps");
  run.seed = static_cast<std::uint64_t>(deck.integer("run.seed"));
  run.device = deck.text("run.device");
  run.share_gpus = deck.boolean("run.share_gpus");
  run.cuda_graphs = deck.boolean("run.cuda_graphs");
  run.backend = deck.text("comm.backend");
  run.threads = static_cast<int>(deck.integer("run.threads"));
  run.time_limit = deck.real("run.time_limit");
  return run;
}

model::MoeSettings read_moe(const io::Deck& deck) {
  model::MoeSettings moe;
  moe.experts = deck.integer("model.moe.experts");
  moe.top_k = deck.integer("model.moe.top_k");
  moe.shared_experts = deck.integer("model.moe.shared_experts");
  moe.expert_feed_forward = deck.integer("model.moe.expert_feed_forward");
  moe.dense_layers = deck.integer("model.moe.dense_layers");
  moe.router = deck.text("model.moe.router") == "sigmoid" ? model::Router::sigmoid
                                                          : model::Router::softmax;
  moe.normalise = deck.boolean("model.moe.normalise");
  moe.scaling = deck.real("model.moe.scaling");
  moe.capacity_factor = deck.real("model.moe.capacity_factor");
  moe.aux_loss = deck.real("model.moe.aux_loss");
  moe.z_loss = deck.real("model.moe.z_loss");
  moe.choice_bias = deck.boolean("model.moe.choice_bias");
  moe.bias_update_rate = deck.real("model.moe.bias_update_rate");
  return moe;
}

model::ModelConfig read_model(const io::Deck& deck) {
  model::ModelConfig model;
  const std::string& architecture = deck.text("model.architecture");
  const bool gpt2 = architecture == "gpt2";
  model.architecture = gpt2                        ? model::Architecture::gpt2
                       : architecture == "mixtral" ? model::Architecture::mixtral
                       : architecture == "deepseek_moe"
                           ? model::Architecture::deepseek_moe
                           : model::Architecture::llama;
  model.layers = deck.integer("model.layers");
  model.hidden = deck.integer("model.hidden");
  model.heads = deck.integer("model.heads");
  model.kv_heads = deck.integer("model.kv_heads");
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  model.feed_forward = deck.integer("model.feed_forward");
  if (model.feed_forward == 0)
    model.feed_forward =
        gpt2 ? 4 * model.hidden : divide_up(8 * model.hidden, 3 * 64) * 64;
  model.vocabulary = deck.integer("model.vocabulary");
  if (model.vocabulary == 0 && deck.text("data.source") == "bytes")
    model.vocabulary = io::end_of_text + 1;
  model.sequence = deck.integer("model.sequence");
  model.rope_theta = deck.real("model.rope_theta");
  model.norm_eps = deck.real("model.norm_eps");
  model.tie_embeddings = deck.boolean("model.tie_embeddings");
  model.initializer_range = deck.real("model.initializer_range");
  model.moe = read_moe(deck);
  return model;
}

io::SourceConfig read_source(const io::Deck& deck, const RunConfig& config,
                             std::string_view paths) {
  io::SourceConfig source{deck.text("data.source"), deck.texts(paths),
                          config.model.sequence, config.model.vocabulary,
                          config.run.seed};
  if (deck.given(paths) && source.kind != "synthetic")
    source.named_by = format("{}: {}", deck.where(paths), paths);
  return source;
}

optim::Sharding sharding_of(const std::string& strategy) {
  if (strategy == "ZERO1") return optim::Sharding::optimizer;
  if (strategy == "SHARD_GRAD_OP") return optim::Sharding::gradients;
  if (strategy == "FULL_SHARD" || strategy == "HYBRID_SHARD")
    return optim::Sharding::weights;
  return optim::Sharding::none;
}

// Ranks that share out one copy of the weights, of `replicas` that hold the same ones.
int shard_ranks(const io::Deck& deck, const comm::MeshShape& mesh, int ranks_on_node) {
  const std::string& strategy = deck.text("parallel.sharding_strategy");
  const int replicas = std::max(mesh.data * mesh.context, 1);
  if (strategy == "NO_SHARD") return 1;
  if (strategy != "HYBRID_SHARD") return replicas;
  const std::int64_t given = deck.integer("parallel.shard_group");
  if (given > 0) return static_cast<int>(given);
  return std::clamp(ranks_on_node / std::max(mesh.tensor, 1), 1, replicas);
}

ParallelSettings read_parallel(const io::Deck& deck, int ranks, int ranks_on_node) {
  ParallelSettings parallel;
  const std::int64_t tensor = deck.integer("parallel.tensor"),
                     context = deck.integer("parallel.context"),
                     pipeline = deck.integer("parallel.pipeline");
  parallel.mesh.tensor = static_cast<int>(tensor);
  parallel.mesh.context = static_cast<int>(context);
  parallel.mesh.pipeline = static_cast<int>(pipeline);
  // At most 1e18. Where it does not divide the ranks, a rule says so.
  const std::int64_t axes = tensor * context * pipeline;
  parallel.mesh.data = axes > 0 && ranks % axes == 0 ? static_cast<int>(ranks / axes) : 0;
  parallel.folding.expert = static_cast<int>(deck.integer("parallel.expert"));
  parallel.folding.shard = shard_ranks(deck, parallel.mesh, ranks_on_node);
  parallel.sequence = deck.boolean("parallel.sequence");
  parallel.tensor_chunks = static_cast<int>(deck.integer("parallel.tensor_chunks"));
  parallel.ulysses = deck.text("parallel.context_method") == "ulysses";
  const std::string& order = deck.text("parallel.context_order");
  parallel.order =
      order == "contiguous" || context == 1 || (order == "auto" && parallel.ulysses)
          ? parallel::ContextOrder::contiguous
          : parallel::ContextOrder::zigzag;
  if (deck.sound("parallel.schedule"))
    parallel.schedule = schedule::schedule_kind_of(deck.text("parallel.schedule"));
  parallel.virtual_stages = static_cast<int>(deck.integer("parallel.virtual_stages"));
  parallel.stage_layers = deck.integers("parallel.stage_layers");
  parallel.sharding = sharding_of(deck.text("parallel.sharding_strategy"));
  if (deck.text("parallel.wrap") == "size")
    parallel.wrap_parameters = deck.integer("parallel.wrap_parameters");
  parallel.prefetch = static_cast<int>(deck.integer("parallel.prefetch"));
  parallel.gathered_units = static_cast<int>(deck.integer("parallel.gathered_units"));
  const std::string& offload = deck.text("parallel.offload");
  parallel.offload = offload == "optimizer" ? optim::Offload::optimizer
                     : offload == "weights" ? optim::Offload::weights
                                            : optim::Offload::none;
  parallel.bucket_bytes = deck.integer("parallel.bucket_bytes");
  return parallel;
}

RecomputeSettings read_recompute(const io::Deck& deck) {
  RecomputeSettings recompute;
  const std::string& policy = deck.text("recompute.policy");
  recompute.what.full = policy == "full";
  recompute.what.partition = deck.boolean("recompute.partition");
  recompute.layers = deck.integer("recompute.layers");
  if (policy != "selective") return recompute;
  for (const std::string& piece : deck.texts("recompute.pieces")) {
    recompute.what.norm |= piece == "norm";
    recompute.what.attention |= piece == "attention";
    recompute.what.activation |= piece == "activation";
    recompute.what.up |= piece == "up";
  }
  return recompute;
}

optim::DecayStyle decay_style(const std::string& name) {
  if (name == "linear") return optim::DecayStyle::linear;
  if (name == "cosine") return optim::DecayStyle::cosine;
  if (name == "wsd") return optim::DecayStyle::wsd;
  return optim::DecayStyle::constant;
}

optim::OptimizerConfig read_optimizer(const io::Deck& deck) {
  optim::OptimizerConfig optimizer;
  optimizer.name = deck.text("optimizer.name");
  optimizer.learning_rate = deck.real("optimizer.learning_rate");
  const auto betas = deck.reals("optimizer.betas");
  if (betas.size() == 2) {
    optimizer.beta1 = betas[0];
    optimizer.beta2 = betas[1];
  }
  optimizer.eps = deck.real("optimizer.eps");
  optimizer.weight_decay = deck.real("optimizer.weight_decay");
  optimizer.clip = deck.real("optimizer.clip");
  optimizer.schedule.kind = decay_style(deck.text("optimizer.schedule.name"));
  optimizer.schedule.warmup = deck.integer("optimizer.schedule.warmup");
  optimizer.schedule.decay = deck.integer("optimizer.schedule.decay");
  optimizer.schedule.final_fraction = deck.real("optimizer.schedule.final_fraction");
  optimizer.muon.momentum = deck.real("optimizer.muon.momentum");
  optimizer.muon.nesterov = deck.boolean("optimizer.muon.nesterov");
  optimizer.muon.steps =
      static_cast<int>(deck.integer("optimizer.muon.newton_schulz_steps"));
  optimizer.muon.match_adamw =
      deck.text("optimizer.muon.adjust_rate") == "match_rms_adamw";
  optimizer.steps = deck.integer("run.steps");
  for (const std::string& group : deck.texts("optimizer.groups")) {
    try {
      optimizer.groups.push_back(optim::parse_group(group));
    } catch (const Error&) {  // a rule says what is wrong with it
    }
  }
  return optimizer;
}

StepRules read_step_rules(const io::Deck& deck) {
  using Reaction = StepRules::Reaction;
  const auto reaction = [&](const char* key) {
    const std::string text = deck.text(key);
    return text == "skip"   ? Reaction::skip
           : text == "stop" ? Reaction::stop
                            : Reaction::off;
  };
  return {.nan = reaction("health.nan"),
          .spike = reaction("health.spike"),
          .spike_threshold = deck.real("health.spike_threshold"),
          .spike_window = deck.integer("health.spike_window"),
          .skip_limit = deck.integer("health.skip_limit"),
          .skip_window = deck.integer("health.skip_window"),
          .clip = deck.real("optimizer.clip")};
}

void read_output(const io::Deck& deck, RunConfig& config) {
  config.checkpoint.every = deck.integer("checkpoint.every");
  config.checkpoint.at_end = deck.boolean("checkpoint.at_end");
  config.checkpoint.keep = static_cast<int>(deck.integer("checkpoint.keep"));
  config.checkpoint.keep_every = deck.integer("checkpoint.keep_every");
  config.checkpoint.async = deck.boolean("checkpoint.async");
  config.checkpoint.resume = deck.text("checkpoint.resume");
  config.checkpoint.one_reads = deck.text("checkpoint.load") == "one";
  config.checkpoint.load_on_mesh_change = deck.boolean("checkpoint.load_on_mesh_change");
  config.metrics.every = deck.integer("metrics.every");
  config.metrics.tensorboard = deck.boolean("metrics.tensorboard");
  config.metrics.validate_every = deck.integer("metrics.validate_every");
  config.metrics.validate_sequences = deck.integer("metrics.validate_sequences");
  config.health.steps = read_step_rules(deck);
  config.health.timeout_seconds = deck.real("comm.timeout_seconds");
  config.health.watchdog_seconds = deck.real("health.watchdog_seconds");
  config.health.slow_factor = deck.real("health.slow_factor");
  config.health.check_replicas_every = deck.integer("health.check_replicas_every");
  config.debug.check_collectives = deck.boolean("debug.check_collectives");
  config.debug.dump_gradients = deck.integers("debug.dump_gradients");
  config.debug.dump_samples = deck.integers("debug.dump_samples");
  config.debug.fault = deck.text("debug.fault");
}

}  // namespace

RunConfig read_run_config(const io::Deck& deck, int ranks, int ranks_on_node) {
  RunConfig config;
  config.run = read_run(deck);
  config.model = read_model(deck);
  config.data = read_source(deck, config, "data.paths");
  config.validation = read_source(deck, config, "data.validation_paths");
  config.batch.global = deck.integer("batch.global");
  config.batch.micro = deck.integer("batch.micro");
  config.parallel = read_parallel(deck, ranks, ranks_on_node > 0 ? ranks_on_node : ranks);
  config.recompute = read_recompute(deck);
  config.precision = read_precision(deck);
  config.optimizer = read_optimizer(deck);
  config.z_loss = deck.real("model.z_loss");
  read_output(deck, config);
  return config;
}

RunConfig make_run_config(const io::Deck& deck, int ranks, int ranks_on_node) {
  // 1. What the deck says, with defaults that depend on other keys resolved.
  RunConfig config = read_run_config(deck, ranks, ranks_on_node);
  // 2. Whether it can be done.
  const BrokenRules broken = check_rules(deck, config, ranks, ranks_on_node);
  if (broken.problems.empty()) {
    deck.require_sound();
    return config;
  }
  std::vector<io::DeckProblem> all = deck.problems();
  const bool resources = all.empty() && broken.only_ranks;
  all.insert(all.end(), broken.problems.begin(), broken.problems.end());
  io::fail_with(resources ? Status::resources : Status::bad_content, all);
}

LoadedRun load_run(const std::string& path, std::span<const std::string> overrides,
                   int ranks, int ranks_on_node) {
  LoadedRun loaded{io::Deck::load_leniently(path, overrides, deck_table()), {}};
  loaded.config = make_run_config(loaded.deck, ranks, ranks_on_node);
  return loaded;
}

}  // namespace trireme::config
