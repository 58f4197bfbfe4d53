// The values that a search tries, and the decks that they make.
// SPDX-License-Identifier: Apache-2.0
#include "plan/search_space.hpp"

#include <algorithm>
#include <array>

#include "base/format.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "config/rules.hpp"
#include "engine/gpu_misfit.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::plan {
namespace {

using schedule::ScheduleKind;

std::vector<int> divisors(int value) {
  std::vector<int> all;
  for (int d = 1; d <= value / d; ++d) {
    if (value % d != 0) continue;
    all.push_back(d);
    if (d != value / d) all.push_back(value / d);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// What is offloaded, for a reader.
std::string offload_of(const Candidate& c) {
  std::string text(config::key::parallel.offload.word_for(c.offload));
  if (!c.offloads_activations) return text;
  return c.offload == optim::Offload::none ? "activations" : text + ", activations";
}

}  // namespace

std::span<const RecomputeChoice> recompute_choices() {
  static const std::array choices = {
      RecomputeChoice{"none", "[]"},
      RecomputeChoice{
          "selective", "[\"norm\", \"activation\"]", {.norm = true, .activation = true}},
      RecomputeChoice{"selective",
                      "[\"norm\", \"attention\", \"activation\", \"up\"]",
                      {.norm = true, .attention = true, .activation = true, .up = true}},
      RecomputeChoice{"full", "[]", {.full = true}}};
  return choices;
}

io::Deck SearchDeck::deck(std::span<const std::string> more) const {
  std::vector<std::string> all = overrides;
  all.insert(all.end(), more.begin(), more.end());
  return io::Deck::parse(text, name, all, config::deck_table());
}

config::RunConfig SearchDeck::read(std::span<const std::string> more) const {
  return config::read_run_config(deck(more), ranks, ranks_on_node);
}

std::optional<config::RunConfig> SearchDeck::make(
    std::span<const std::string> more) const {
  const io::Deck made = deck(more);
  config::RunConfig config = config::read_run_config(made, ranks, ranks_on_node);
  if (!config::not_available_yet(made).empty()) return std::nullopt;
  if (!config::names_of_broken_rules(made, config, ranks, ranks_on_node).empty())
    return std::nullopt;
  if (gpus && !engine::gpu_misfit(config).empty()) return std::nullopt;
  return config;
}

SearchSpace::SearchSpace(SearchDeck deck) : deck_(std::move(deck)) {
  read_bases();
  list_recomputes();
  for (std::size_t grid = 0; grid < bases_.size(); ++grid) add_meshes(grid);
}

// Every combination of the grids' values.
void SearchSpace::read_bases() {
  std::vector<std::vector<std::string>> all = {{}};
  for (const SearchGrid& grid : deck_.grids) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& one : all)
      for (const std::string& value : grid.values) {
        longer.push_back(one);
        longer.back().push_back(grid.key + "=" + value);
      }
    all = std::move(longer);
  }
  for (auto& one : all) {
    config::RunConfig config = deck_.read(one);
    using parallel::ContextOrder;
    const io::Deck own = deck_.deck(one);
    const auto order = own[config::key::parallel.context_order];
    const auto usual =
        config.parallel.ulysses ? ContextOrder::contiguous : ContextOrder::zigzag;
    bases_.push_back({std::move(one), std::move(config), order.value_or(usual),
                      static_cast<int>(own[config::key::parallel.shard_group])});
  }
}

std::size_t SearchSpace::place_of(const RecomputeChoice& choice) {
  const auto found = std::ranges::find_if(recomputes_, [&](const RecomputeChoice& other) {
    return other.policy == choice.policy && other.pieces == choice.pieces;
  });
  const auto place = static_cast<std::size_t>(found - recomputes_.begin());
  if (found == recomputes_.end()) recomputes_.push_back(choice);
  return place;
}

void SearchSpace::list_recomputes() {
  const bool policy = fixed("recompute.policy"), pieces = fixed("recompute.pieces");
  for (Base& base : bases_) {
    const io::Deck own = deck_.deck(base.overrides);
    for (const RecomputeChoice& choice : recompute_choices()) {
      if (policy && own.value_text("recompute.policy") != format("\"{}\"", choice.policy))
        continue;
      if (!pieces) base.recomputes.push_back(place_of(choice));
    }
    if (!pieces) continue;
    const bool any = own.value_text("recompute.pieces") != "[]";
    base.recomputes.push_back(
        place_of({any ? "selective" : "none", own.value_text("recompute.pieces"),
                  base.config.recompute.what}));
    if (!any && !policy) base.recomputes.push_back(place_of(recompute_choices().back()));
  }
}

bool SearchSpace::ties_schedule() const {
  return any_fixed({"parallel.schedule", "parallel.virtual_stages"});
}

bool SearchSpace::ties_sharding(const Candidate& c) const {
  const config::ParallelSettings& own = base(c).parallel;
  return optim::is_on_disk(own.offload) || own.offload_fraction < 1 ||
         any_fixed({"parallel.sharding_strategy", "parallel.shard_group",
                    "parallel.prefetch", "parallel.gathered_units", "parallel.wrap",
                    "parallel.wrap_parameters", "parallel.wrap_names", "parallel.offload",
                    "parallel.offload_activations",
                    "parallel.offload_activations_fraction"});
}

bool SearchSpace::ties_recompute() const {
  return any_fixed({"recompute.policy", "recompute.pieces", "recompute.layers",
                    "recompute.partition"});
}

void SearchSpace::add_meshes(std::size_t grid) {
  const config::RunConfig& base = bases_[grid].config;
  const auto& given = base.parallel;
  const int ranks = deck_.ranks;
  const std::int64_t nearby = std::int64_t{8} * deck_.ranks_on_node;
  const auto values = [&](std::string_view key, int own, std::int64_t most) {
    if (fixed(key)) return std::vector<int>{own};
    std::vector<int> all = divisors(ranks);
    std::erase_if(all, [&](int value) { return value > most; });
    return all;
  };
  Candidate c;
  c.grid = grid;
  for (const int tensor : values("parallel.tensor", given.mesh.tensor, base.model.heads))
    for (const int context : values("parallel.context", given.mesh.context,
                                    std::max<std::int64_t>(base.model.sequence / 2, 1)))
      for (const int pipeline :
           values("parallel.pipeline", given.mesh.pipeline, base.model.layers)) {
        const std::int64_t axes = std::int64_t{1} * tensor * context * pipeline;
        const bool far = std::int64_t{1} * tensor * context > nearby;
        if (ranks % axes != 0 ||
            (far && !fixed("parallel.tensor") && !fixed("parallel.context")))
          continue;
        c.mesh = {.pipeline = pipeline,
                  .data = static_cast<int>(ranks / axes),
                  .context = context,
                  .tensor = tensor};
        for (const int expert :
             values("parallel.expert", given.folding.expert,
                    base.model.has_experts() ? base.model.moe.experts : 1)) {
          if (c.mesh.data * context % expert != 0) continue;
          c.expert = expert;
          add_batches(c);
        }
      }
}

void SearchSpace::add_batches(Candidate candidate) {
  const config::RunConfig& base = bases_[candidate.grid].config;
  const std::int64_t global = base.batch.global, sequence = base.model.sequence;
  std::set<std::int64_t> all = {base.batch.micro};
  if (!fixed("batch.micro")) {
    const std::int64_t most = std::max<std::int64_t>(16, 65536 / sequence);
    for (std::int64_t micro = 1; micro <= most; micro *= 2) all.insert(micro);
  }
  for (const std::int64_t micro : all) {
    if (global % micro != 0 || global / micro < candidate.mesh.data) continue;
    candidate.micro = micro;
    const bool even =
        micro * (sequence / candidate.mesh.context) % candidate.mesh.tensor == 0;
    candidate.sequence = fixed("parallel.sequence") ? base.parallel.sequence
                                                    : candidate.mesh.tensor > 1 && even;
    add_schedules(candidate);
  }
}

void SearchSpace::add_schedules(Candidate candidate) {
  const config::RunConfig& base = bases_[candidate.grid].config;
  const int pipeline = candidate.mesh.pipeline, own = base.parallel.virtual_stages;
  const bool kind_fixed = fixed("parallel.schedule");
  const bool count_fixed = fixed("parallel.virtual_stages");
  // Stages without a block are for those who ask for them.
  const std::int64_t most_stages = fixed("parallel.pipeline") && count_fixed
                                       ? schedule::most_stages(base.model.layers)
                                       : base.model.layers;
  const auto add = [&](ScheduleKind kind, int chunks) {
    if (kind_fixed && kind != base.parallel.schedule) return;
    if (count_fixed && chunks != own) return;
    if (std::int64_t{1} * pipeline * chunks > most_stages) return;
    candidate.schedule = kind;
    candidate.virtual_stages = chunks;
    add_strategies(candidate);
  };
  if (pipeline == 1 && !kind_fixed) return add(ScheduleKind::one_f_one_b, 1);
  if (kind_fixed) add(ScheduleKind::gpipe, 1);
  add(ScheduleKind::one_f_one_b, 1);
  // Such halve backwards, with which no activations are offloaded.
  const bool only_offloads =
      base.parallel.offload_activations && !tries_activations(base);
  if (kind_fixed || !only_offloads) {
    add(ScheduleKind::zb_h1, 1);
    add(ScheduleKind::zb_v, 2);
    add(ScheduleKind::dualpipe_v, 2);
  }
  for (int chunks = 2; chunks <= std::max(8, count_fixed ? own : 0); ++chunks)
    add(ScheduleKind::interleaved, chunks);
}

void SearchSpace::add_strategies(const Candidate& candidate) {
  const int replicas = candidate.mesh.data * candidate.mesh.context;
  const std::string own = fixed("parallel.sharding_strategy")
                              ? deck_.deck(bases_[candidate.grid].overrides)
                                    .value_text("parallel.sharding_strategy")
                              : std::string();
  for (const auto& [word, strategy] : config::key::parallel.sharding_strategy.words()) {
    const bool kept = own == format("\"{}\"", word);
    if (!own.empty() && !kept) continue;
    if (replicas == 1 && strategy.what != optim::Sharding::none && !kept) continue;
    Candidate c = candidate;
    c.strategy = word;
    c.sharding = strategy.what;
    c.shard = strategy.what == optim::Sharding::none ? 1 : replicas;
    if (strategy.hybrid) {
      const int own_shard =
          fixed("parallel.shard_group") ? bases_[candidate.grid].shard_group : 0;
      c.shard = own_shard > 0 ? own_shard
                              : std::max(deck_.ranks_on_node / candidate.mesh.tensor, 1);
      const bool shares = c.shard > 1 && c.shard < replicas && replicas % c.shard == 0;
      if (!shares && !kept) continue;
    }
    add_memory(c);
  }
}

bool SearchSpace::tries_activations(const config::RunConfig& base) const {
  return deck_.offloads && deck_.offloads_activations &&
         !fixed("parallel.offload_activations") &&
         !fixed("parallel.offload_activations_fraction") && !base.run.cuda_graphs;
}

// Blocks that are kept whole, and the inputs of those that are computed again, are what
// is offloaded: pieces that are made again beside it save little of it.
void SearchSpace::add_activations(Candidate candidate) {
  const config::RunConfig& base = bases_[candidate.grid].config;
  if (!tries_activations(base)) {
    candidate.offloads_activations = base.parallel.offload_activations;
    candidates_.push_back(candidate);
    return;
  }
  candidates_.push_back(candidate);
  const nn::Recompute& again = recomputes_[candidate.recompute].what;
  const bool pieces = again.norm || again.attention || again.activation || again.up;
  if (pieces || schedule::defers_weights(candidate.schedule)) return;
  candidate.offloads_activations = true;
  candidates_.push_back(candidate);
}

void SearchSpace::add_memory(Candidate candidate) {
  const config::RunConfig& base = bases_[candidate.grid].config;
  for (const std::size_t r : bases_[candidate.grid].recomputes) {
    candidate.recompute = r;
    // A disk, and a share of the state, are the user's choice: they stay.
    const bool kept = fixed("parallel.offload") ||
                      optim::is_on_disk(base.parallel.offload) ||
                      base.parallel.offload_fraction < 1;
    using enum optim::Offload;
    for (const optim::Offload offload : {none, optimizer, weights, disk, disk_weights}) {
      if (kept ? offload != base.parallel.offload : optim::is_on_disk(offload)) continue;
      if (!kept && !deck_.offloads && offload != none) continue;
      if (optim::moves_weights(offload) && candidate.sharding != optim::Sharding::weights)
        continue;
      candidate.offload = offload;
      add_activations(candidate);
    }
  }
}

std::vector<std::string> SearchSpace::overrides(const Candidate& c) const {
  std::vector<std::string> all = bases_[c.grid].overrides;
  const auto put = [&](std::string_view key, const auto& value) {
    if (!fixed(key)) all.push_back(format("{}={}", key, value));
  };
  put("parallel.tensor", c.mesh.tensor);
  put("parallel.sequence", c.sequence ? "true" : "false");
  put("parallel.context", c.mesh.context);
  put("parallel.pipeline", c.mesh.pipeline);
  put("parallel.schedule", format("\"{}\"", schedule::name_of(c.schedule)));
  put("parallel.virtual_stages", c.virtual_stages);
  put("parallel.stage_layers", "[]");
  put("parallel.expert", c.expert);
  put("parallel.sharding_strategy", format("\"{}\"", c.strategy));
  put("parallel.shard_group", c.strategy == "HYBRID_SHARD" ? c.shard : 0);
  put("parallel.offload",
      format("\"{}\"", config::key::parallel.offload.word_for(c.offload)));
  put("parallel.offload_activations", c.offloads_activations ? "true" : "false");
  if (!c.offloads_activations && base(c).parallel.offload_activations_fraction != 1)
    put("parallel.offload_activations_fraction", "1.0");
  put("batch.micro", c.micro);
  put("recompute.policy", format("\"{}\"", recomputes_[c.recompute].policy));
  put("recompute.pieces", recomputes_[c.recompute].pieces);
  put("recompute.layers", 0);
  put("recompute.partition", "false");
  // Keys that mean nothing without what they belong to.
  if (c.mesh.tensor == 1) put("parallel.tensor_chunks", 0);
  if (c.expert == 1) put("parallel.expert_memory", "0.0");
  if (c.sharding == optim::Sharding::none) {
    put("parallel.wrap", "\"block\"");
    put("parallel.wrap_parameters", 0);
    put("parallel.wrap_names", "[]");
  }
  if (c.sharding != optim::Sharding::weights) {
    put("parallel.prefetch", 1);
    put("parallel.gathered_units", 0);
  }
  return all;
}

std::vector<std::string> SearchSpace::words(const Candidate& c) const {
  std::string pipeline = schedule::name_of(c.schedule);
  if (c.schedule == ScheduleKind::interleaved)
    pipeline += format(" x{}", c.virtual_stages);
  std::string recompute(recomputes_[c.recompute].policy);
  if (recompute == "selective")
    recompute = recomputes_[c.recompute].what.attention ? "most pieces" : "cheap pieces";
  std::vector<std::string> all = {std::to_string(c.mesh.tensor),
                                  std::to_string(c.mesh.context),
                                  std::to_string(c.mesh.pipeline),
                                  std::to_string(c.expert),
                                  std::to_string(c.mesh.data),
                                  c.mesh.pipeline > 1 ? pipeline : std::string("-"),
                                  std::string(c.strategy),
                                  std::to_string(c.micro),
                                  recompute,
                                  offload_of(c)};
  for (const std::string& one : bases_[c.grid].overrides) all.push_back(one);
  return all;
}

config::RunConfig SearchSpace::sketch(const Candidate& c) const {
  config::RunConfig config = base(c);
  config.parallel.mesh = c.mesh;
  config.parallel.folding = {.shard = c.shard, .expert = c.expert};
  config.parallel.sequence = c.sequence;
  if (c.mesh.context > 1) config.parallel.order = bases_[c.grid].order;
  config.parallel.schedule = c.schedule;
  config.parallel.virtual_stages = c.virtual_stages;
  config.parallel.sharding = c.sharding;
  config.parallel.offload = c.offload;
  config.parallel.offload_activations = c.offloads_activations;
  config.batch.micro = c.micro;
  config.recompute = {};
  config.recompute.what = recomputes_[c.recompute].what;
  return config;
}

}  // namespace trireme::plan
