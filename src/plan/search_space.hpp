// SearchSpace: the decks that a search chooses from, as overrides of one deck.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"
#include "io/deck.hpp"

namespace trireme::plan {

// Values of one more key that a search tries: "--grid precision.compute=bf16,fp8".
struct SearchGrid {
  std::string key;
  std::vector<std::string> values;
};

// The deck that a search starts from, and what it is asked to keep.
struct SearchDeck {
  std::string text, name;              // TOML, and what stands for it in messages
  std::vector<std::string> overrides;  // of the command line, those of --fix included
  int ranks = 1, ranks_on_node = 1;
  bool offloads = true;  // the host's memory is not the memory that ranks compute in
  bool offloads_activations = false;  // whether that is tried, too
  std::set<std::string> fixed{};      // full names of keys that keep the deck's value
  std::vector<SearchGrid> grids{};
  bool gpus = false;  // ranks compute on GPUs, which lack some features

  // The deck with further overrides. Throws as io::Deck::parse().
  io::Deck deck(std::span<const std::string> more) const;
  // What it says, before any rule is checked.
  config::RunConfig read(std::span<const std::string> more) const;
  // The same, or nothing where a rule refuses it, or GPUs lack what it asks for.
  std::optional<config::RunConfig> make(std::span<const std::string> more) const;
};

// What recompute.policy and recompute.pieces say.
struct RecomputeChoice {
  std::string_view policy;
  std::string pieces;  // as TOML
  nn::Recompute what{};
};
std::span<const RecomputeChoice> recompute_choices();

// One deck of the space.
struct Candidate {
  comm::MeshShape mesh;
  int expert = 1;
  std::int64_t micro = 1;
  bool sequence = false;
  schedule::ScheduleKind schedule = schedule::ScheduleKind::one_f_one_b;
  int virtual_stages = 1;
  std::string_view strategy = "NO_SHARD";
  optim::Sharding sharding = optim::Sharding::none;
  int shard = 1;              // ranks that share out one copy
  std::size_t recompute = 0;  // place in SearchSpace::recomputes()
  optim::Offload offload = optim::Offload::none;
  bool offloads_activations = false;
  std::size_t grid = 0;  // its values of the search's grids: SearchSpace::base()

  bool operator==(const Candidate&) const = default;
};

// The values that each key takes: tensor, context, pipeline and expert ranks divide the
// ranks; tensor x context ranks span at most eight nodes; powers of two as microbatches
// of at most 16 sequences or 65536 tokens, and the deck's own; every schedule but gpipe,
// which takes as long as 1f1b and more memory. A fixed key has the deck's value alone,
// whatever that is.
class SearchSpace {
 public:
  explicit SearchSpace(SearchDeck deck);

  const SearchDeck& deck() const { return deck_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<RecomputeChoice>& recomputes() const { return recomputes_; }
  // What the deck says with the values of a grid; the mesh means nothing.
  const config::RunConfig& base(const Candidate& candidate) const {
    return bases_[candidate.grid].config;
  }
  // "section.key=value" of all that a candidate says.
  std::vector<std::string> overrides(const Candidate& candidate) const;
  // The keys among them that tell candidates apart, as a reader wants to see them.
  std::vector<std::string> words(const Candidate& candidate) const;
  // A candidate's configuration, as far as a quick estimate reads it.
  config::RunConfig sketch(const Candidate& candidate) const;

  // Whether a fixed key, or what the deck says of it, means something only with some of
  // the schedules, of the strategies and offloads, or of the ways to recompute.
  bool ties_schedule() const;
  bool ties_sharding(const Candidate& candidate) const;
  bool ties_recompute() const;
  // The first way to recompute of the candidate's base.
  std::size_t first_recompute(const Candidate& candidate) const {
    return bases_[candidate.grid].recomputes.front();
  }

 private:
  struct Base {
    std::vector<std::string> overrides;
    config::RunConfig config;
    parallel::ContextOrder order;           // of more context ranks than one
    int shard_group = 0;                    // what the deck says
    std::vector<std::size_t> recomputes{};  // of recomputes_, that it tries
  };
  bool any_fixed(std::initializer_list<std::string_view> keys) const {
    return std::any_of(keys.begin(), keys.end(), [&](auto key) { return fixed(key); });
  }
  bool fixed(std::string_view key) const {
    return deck_.fixed.contains(std::string(key));
  }
  void read_bases();
  void list_recomputes();
  std::size_t place_of(const RecomputeChoice& choice);
  void add_meshes(std::size_t grid);
  void add_batches(Candidate candidate);
  void add_schedules(Candidate candidate);
  void add_strategies(const Candidate& candidate);
  void add_memory(Candidate candidate);
  void add_activations(Candidate candidate);
  bool tries_activations(const config::RunConfig& base) const;

  SearchDeck deck_;
  std::vector<Base> bases_;
  std::vector<RecomputeChoice> recomputes_;
  std::vector<Candidate> candidates_;
};

}  // namespace trireme::plan
