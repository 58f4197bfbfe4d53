// From the deck to one plain struct for each module.
// SPDX-License-Identifier: Apache-2.0
#include "train/run_config.hpp"

#include "base/split.hpp"
#include "train/deck_table.hpp"
#include "train/run_rules.hpp"

namespace trireme::train {

namespace {

RunSettings read_run(const io::Deck& deck) {
  RunSettings run;
  run.name = deck.text("run.name");
  run.directory = deck.text("run.directory");
  if (run.directory.empty()) run.directory = "runs/" + run.name;
  run.steps = deck.integer("run.steps");
  run.seed = static_cast<std::uint64_t>(deck.integer("run.seed"));
  run.device = deck.text("run.device") == "auto" ? "cpu" : deck.text("run.device");
  run.threads = static_cast<int>(deck.integer("run.threads"));
  run.time_limit = deck.real("run.time_limit");
  return run;
}

model::ModelConfig read_model(const io::Deck& deck) {
  model::ModelConfig model;
  const bool gpt2 = deck.text("model.architecture") == "gpt2";
  model.architecture = gpt2 ? model::Architecture::gpt2 : model::Architecture::llama;
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
  return model;
}

io::SourceConfig read_source(const io::Deck& deck, const RunConfig& config,
                             std::string_view paths) {
  return {deck.text("data.source"), deck.texts(paths), config.model.sequence,
          config.model.vocabulary, config.run.seed};
}

ParallelSettings read_parallel(const io::Deck& deck, int ranks) {
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
  parallel.sequence = deck.boolean("parallel.sequence");
  parallel.bucket_bytes = deck.integer("parallel.bucket_bytes");
  return parallel;
}

PrecisionSettings read_precision(const io::Deck& deck) {
  PrecisionSettings precision;
  const std::string& compute = deck.text("precision.compute");
  precision.compute = compute == "fp64"   ? DType::f64
                      : compute == "bf16" ? DType::bf16
                                          : DType::f32;
  precision.accumulate = accumulator_of(precision.compute);
  precision.gradient_reduce = precision.accumulate;
  return precision;
}

optim::ScheduleKind schedule_kind(const std::string& name) {
  if (name == "linear") return optim::ScheduleKind::linear;
  if (name == "cosine") return optim::ScheduleKind::cosine;
  if (name == "wsd") return optim::ScheduleKind::wsd;
  return optim::ScheduleKind::constant;
}

optim::OptimizerConfig read_optimizer(const io::Deck& deck) {
  optim::OptimizerConfig optimizer;
  optimizer.kind = deck.text("optimizer.name") == "sgd" ? optim::OptimizerKind::sgd
                                                        : optim::OptimizerKind::adamw;
  optimizer.learning_rate = deck.real("optimizer.learning_rate");
  const auto betas = deck.reals("optimizer.betas");
  if (betas.size() == 2) {
    optimizer.beta1 = betas[0];
    optimizer.beta2 = betas[1];
  }
  optimizer.eps = deck.real("optimizer.eps");
  optimizer.weight_decay = deck.real("optimizer.weight_decay");
  optimizer.clip = deck.real("optimizer.clip");
  optimizer.schedule.kind = schedule_kind(deck.text("optimizer.schedule.name"));
  optimizer.schedule.warmup = deck.integer("optimizer.schedule.warmup");
  optimizer.schedule.decay = deck.integer("optimizer.schedule.decay");
  optimizer.schedule.final_fraction = deck.real("optimizer.schedule.final_fraction");
  optimizer.steps = deck.integer("run.steps");
  return optimizer;
}

void read_output(const io::Deck& deck, RunConfig& config) {
  config.checkpoint.every = deck.integer("checkpoint.every");
  config.checkpoint.keep = static_cast<int>(deck.integer("checkpoint.keep"));
  config.checkpoint.resume = deck.text("checkpoint.resume");
  config.checkpoint.load_on_mesh_change = deck.boolean("checkpoint.load_on_mesh_change");
  config.metrics.every = deck.integer("metrics.every");
  config.metrics.validate_every = deck.integer("metrics.validate_every");
  config.metrics.validate_sequences = deck.integer("metrics.validate_sequences");
  config.health.nan = deck.text("health.nan");
  config.health.timeout_seconds = deck.real("comm.timeout_seconds");
  config.health.watchdog_seconds = deck.real("health.watchdog_seconds");
  config.debug.dump_gradients = deck.integers("debug.dump_gradients");
  config.debug.fault = deck.text("debug.fault");
}

}  // namespace

RunConfig make_run_config(const io::Deck& deck, int ranks) {
  // 1. What the deck says, with defaults that depend on other keys resolved.
  RunConfig config;
  config.run = read_run(deck);
  config.model = read_model(deck);
  config.data = read_source(deck, config, "data.paths");
  config.validation = read_source(deck, config, "data.validation_paths");
  config.batch.global = deck.integer("batch.global");
  config.batch.micro = deck.integer("batch.micro");
  config.parallel = read_parallel(deck, ranks);
  config.precision = read_precision(deck);
  config.optimizer = read_optimizer(deck);
  config.z_loss = deck.real("model.z_loss");
  read_output(deck, config);

  // 2. Whether it can be done.
  const BrokenRules broken = check_rules(deck, config, ranks);
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
                   int ranks) {
  LoadedRun loaded{io::Deck::load_leniently(path, overrides, deck_table()), {}};
  loaded.config = make_run_config(loaded.deck, ranks);
  return loaded;
}

}  // namespace trireme::train
