// From the deck to one plain struct for each module.
// SPDX-License-Identifier: Apache-2.0
#include "config/run_config.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "config/adapter_patterns.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "config/precision.hpp"
#include "config/rules.hpp"
#include "model/adapted_modules.hpp"
#include "optim/parameter_groups.hpp"

namespace trireme::config {

namespace {

// Every setting that is a value of the deck as it stands.
void fill_settings(const io::Deck& deck, RunConfig& config) {
  for (const Section* section : sections())
    for (const Row& row : section->rows())
      if (row.store != nullptr) row.store(deck, *row.key, config);
}

void resolve_model(const io::Deck& deck, model::ModelConfig& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.feed_forward == 0)
    model.feed_forward =
        model.gated() ? divide_up(8 * model.hidden, 3 * 64) * 64 : 4 * model.hidden;
  if (model.vocabulary == 0 && deck[key::data.source] == io::SourceKind::bytes)
    model.vocabulary = io::end_of_text + 1;
}

// "deck.toml:7:9: data.packing", for messages.
std::string place_of(const io::Deck& deck, const io::DeckKey& key) {
  return (deck.given(key) ? deck.where(key) + ": " : std::string()) + full_name(key);
}

io::SourceConfig read_source(const io::Deck& deck, const RunConfig& config,
                             const Strings& paths) {
  io::SourceConfig source{deck[key::data.source], deck[paths], config.model.sequence,
                          config.model.vocabulary, config.run.seed};
  if (&paths == &key::data.validation_paths) {
    const bool blend = source.kind == io::SourceKind::blend;
    source.kind = deck[key::data.validation_source].value_or(
        blend ? io::SourceKind::tokens : source.kind);
  } else {
    for (const std::string& part : deck[key::data.blend]) {
      try {
        source.blend.push_back(io::parse_blend_part(part));
      } catch (const Error&) {  // a rule says what is wrong with it
      }
    }
  }
  source.tokenizer = deck[key::data.tokenizer];
  source.packing = deck[key::data.packing];
  source.end_token = deck[key::data.end_token];
  source.loss_on = deck[key::data.loss_on];
  source.chat_template = deck[key::data.chat_template];
  source.template_date = deck[key::data.template_date];
  if (&paths == &key::data.paths)
    source.infilling = {deck[key::data.fim_rate], deck[key::data.fim_spm],
                        deck[key::data.fim_tokens]};
  source.names = {place_of(deck, key::data.tokenizer),
                  place_of(deck, key::data.chat_template),
                  place_of(deck, key::data.packing), place_of(deck, key::data.fim_rate)};
  if (deck.given(paths) && source.kind != io::SourceKind::synthetic)
    source.named_by = format("{}: {}", deck.where(paths), full_name(paths));
  if (source.kind == io::SourceKind::blend)
    source.named_by =
        format("{}: {}", deck.where(key::data.blend), full_name(key::data.blend));
  return source;
}

// Ranks that share out one copy of the weights, of `replicas` that hold the same ones.
int shard_ranks(const io::Deck& deck, const comm::MeshShape& mesh, int ranks_on_node) {
  const ShardingStrategy strategy = deck[key::parallel.sharding_strategy];
  const int replicas = std::max(mesh.data * mesh.context, 1);
  if (strategy.what == optim::Sharding::none) return 1;
  if (!strategy.hybrid) return replicas;
  const std::int64_t given = deck[key::parallel.shard_group];
  if (given > 0) return static_cast<int>(given);
  return std::clamp(ranks_on_node / std::max(mesh.tensor, 1), 1, replicas);
}

void resolve_parallel(const io::Deck& deck, int ranks, int ranks_on_node,
                      ParallelSettings& parallel) {
  comm::MeshShape& mesh = parallel.mesh;
  // At most 1e18. Where it does not divide the ranks, a rule says so.
  const std::int64_t axes = std::int64_t{1} * mesh.tensor * mesh.context * mesh.pipeline;
  mesh.data = axes > 0 && ranks % axes == 0 ? static_cast<int>(ranks / axes) : 0;
  parallel.folding.shard = shard_ranks(deck, mesh, ranks_on_node);
  parallel.sharding = deck[key::parallel.sharding_strategy].what;
  using parallel::ContextOrder;
  const ContextOrder order = deck[key::parallel.context_order].value_or(
      parallel.ulysses ? ContextOrder::contiguous : ContextOrder::zigzag);
  parallel.order = mesh.context == 1 ? ContextOrder::contiguous : order;
  if (deck[key::parallel.wrap] == Wrap::size)
    parallel.wrap_parameters = deck[key::parallel.wrap_parameters];
  if (deck[key::parallel.wrap] == Wrap::names)
    parallel.wrap_names = deck[key::parallel.wrap_names];
}

void read_recompute(const io::Deck& deck, nn::Recompute& what) {
  const RecomputePolicy policy = deck[key::recompute.policy];
  what.full = policy == RecomputePolicy::full;
  if (policy != RecomputePolicy::selective) return;
  for (const std::string& name : deck[key::recompute.pieces])
    for (const RecomputePiece& piece : recompute_pieces)
      what.*piece.member |= piece.name == name;
}

void read_optimizer(const io::Deck& deck, optim::OptimizerConfig& optimizer) {
  const std::vector<double> betas = deck[key::optimizer.betas];
  if (betas.size() == 2) {
    optimizer.beta1 = betas[0];
    optimizer.beta2 = betas[1];
  }
  optimizer.steps = deck[key::run.steps];
  for (const std::string& group : deck[key::optimizer.groups]) {
    try {
      optimizer.groups.push_back(optim::parse_group(group));
    } catch (const Error&) {  // a rule says what is wrong with it
    }
  }
}

// A rule says what is wrong with what is left out here.
void read_adapter(const io::Deck& deck, nn::AdapterConfig& adapter) {
  for (const std::string& text : deck[key::adapter.rank_pattern])
    if (const auto each = parse_module_pattern(text, 1, 1e6))
      adapter.ranks.push_back({each->pattern, static_cast<std::int64_t>(each->value)});
  for (const std::string& text : deck[key::adapter.alpha_pattern])
    if (const auto each = parse_module_pattern(text, 0, 1e6))
      adapter.alphas.push_back(*each);
}

// What `parse` makes of each text; nothing where it refuses one, for then a rule says
// what is wrong with it.
template <class T>
std::vector<T> read_all(const io::Deck& deck, const Strings& key,
                        T (*parse)(std::string_view)) {
  std::vector<T> all;
  for (const std::string& text : deck[key]) {
    try {
      all.push_back(parse(text));
    } catch (const Error&) {
      return {};
    }
  }
  return all;
}

// What schedules of the learning rate count: steps, or tokens by the batch's stages.
void count_for_schedules(const io::Deck& deck, RunConfig& config) {
  optim::OptimizerConfig& optimizer = config.optimizer;
  // What is no sound number, or too large to count, other rules refuse.
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double tokens =
      real(config.run.steps) * real(config.batch.global) * real(config.model.sequence);
  const bool sound =
      config.batch.global > 0 && config.model.sequence > 0 && tokens < 0x1p62;
  if (deck[key::schedule.unit] == ScheduleUnit::steps || !sound) return;
  for (const BatchStage& stage : config.stages())
    optimizer.schedule.tokens.push_back(
        {stage.first_step, stage.tokens_before, stage.global * config.model.sequence});
  optimizer.steps = optimizer.schedule.count(optimizer.steps);
}

}  // namespace

RunConfig read_run_config(const io::Deck& deck, int ranks, int ranks_on_node) {
  RunConfig config;
  // 1. Settings that are values of the deck, over those that a recipe brings.
  config.precision = precision_of(read_recipe(deck));
  fill_settings(deck, config);
  // 2. Settings that are made of several values, or depend on each other.
  if (config.run.directory.empty()) config.run.directory = "runs/" + config.run.name;
  resolve_model(deck, config.model);
  config.data = read_source(deck, config, key::data.paths);
  config.validation = read_source(deck, config, key::data.validation_paths);
  resolve_parallel(deck, ranks, ranks_on_node > 0 ? ranks_on_node : ranks,
                   config.parallel);
  read_recompute(deck, config.recompute.what);
  read_optimizer(deck, config.optimizer);
  read_adapter(deck, config.adapter.matrices);
  for (std::string& module : config.adapter.matrices.modules_to_save)
    module = model::name_in_files(config.model, std::move(module));
  config.adapter.named_by = place_of(deck, key::adapter.from);
  config.batch.ramp = read_all(deck, key::batch.ramp, parse_ramp_part);
  config.batch.sequence_ramp = read_all(deck, key::batch.sequence_ramp, parse_ramp_part);
  config.batch.passed_over = read_all(deck, key::data.skip_steps, parse_step_range);
  count_for_schedules(deck, config);
  config.health.steps.clip = config.optimizer.clip;
  static_cast<void>(deck[key::run.spare_nodes]);  // for job scripts: inspect --value
  return config;
}

namespace {

RunConfig checked_run_config(const io::Deck& deck, int ranks, int ranks_on_node,
                             bool stored) {
  // 1. What the deck says, with defaults that depend on other keys resolved.
  RunConfig config = read_run_config(deck, ranks, ranks_on_node);
  // 2. Whether it can be done.
  const BrokenRules broken = check_rules(deck, config, ranks, ranks_on_node, stored);
  if (broken.problems.empty()) {
    deck.require_sound();
    return config;
  }
  std::vector<io::DeckProblem> all = deck.problems();
  const bool resources = all.empty() && broken.only_ranks;
  all.insert(all.end(), broken.problems.begin(), broken.problems.end());
  if (resources)
    all.back().text +=
        " (mpirun -n N or srun -n N; plan, inspect and train --check take --ranks N)";
  io::fail_with(resources ? Status::resources : Status::bad_content, all);
}

}  // namespace

RunConfig make_run_config(const io::Deck& deck, int ranks, int ranks_on_node) {
  return checked_run_config(deck, ranks, ranks_on_node, false);
}

RunConfig stored_run_config(const io::Deck& deck, int ranks) {
  return checked_run_config(deck, ranks, 0, true);
}

LoadedRun load_run(const std::string& path, std::span<const std::string> overrides,
                   int ranks, int ranks_on_node, const ReadModel& read_model) {
  LoadedRun loaded{load_with_model(path, overrides, read_model), {}};
  loaded.config = make_run_config(loaded.deck, ranks, ranks_on_node);
  return loaded;
}

}  // namespace trireme::config
