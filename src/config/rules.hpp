// Rules: everything that must hold between deck keys, by section.
// SPDX-License-Identifier: Apache-2.0
// Each section's rules stand in rules_SECTION.cpp.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/split.hpp"
#include "config/rule_check.hpp"

namespace trireme::config {

// Checks every rule. `config` is what the deck says, resolved; values of keys that are
// not sound may be anything, and rules about them are not judged.
BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks,
                        int ranks_on_node = 0);

// Keys whose value asks for what this version cannot do yet, each with the values to
// write instead.
std::vector<io::DeckProblem> not_available_yet(const io::Deck& deck);

// Rules of what is made of data, of what is shown, and of which checkpoints are best.
class DataRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

 protected:
  void sample_rules();
  void profile_rules();
  void best_rules();
  void infilling_rules();
  void preference_rules();
  void ramp_rules();
  void skip_rules();
  void ramp_part_rules(const io::DeckKey& key, const std::vector<std::string>& parts);
};

// Rules of other kinds of attention.
class AttentionRules : public DataRules {
 public:
  using DataRules::DataRules;

 protected:
  void latent_rules();
  void linear_rules();
};

// Rules of adapters.
class AdapterRules : public AttentionRules {
 public:
  using AttentionRules::AttentionRules;

 protected:
  void adapter_rules();
  void quantize_rules();
  void dora_rules();
  void pattern_rule(const io::Key<std::vector<std::string>>& key, double least,
                    double most);
};

// Rules of what lies in the host's memory or on a disk.
class OffloadRules : public AdapterRules {
 public:
  using AdapterRules::AdapterRules;

 protected:
  void offload_rules();
  void offload_activations_rules();
};

// Rules of copies of the model that take steps by themselves.
class OuterRules : public OffloadRules {
 public:
  using OffloadRules::OffloadRules;

 protected:
  // What `key` says needs master weights, gradient sums and moments in full; with the
  // value `without` it does not.
  void needs_plain_state(
      const io::DeckKey& key, const char* without,
      const std::source_location& at = std::source_location::current());
  void outer_rules();
  void outer_mesh_rules();
  void outer_round_rules();
};

// Rules of sums that do not depend on the number of data ranks.
class ReproducibleRules : public OuterRules {
 public:
  using OuterRules::OuterRules;

 protected:
  void reproducible_rules();
};

class Rules : public ReproducibleRules {
 public:
  using ReproducibleRules::ReproducibleRules;

  // Judges every rule, in the order in which a message names them.
  BrokenRules check();
  // Names of the broken rules, without their texts.
  std::set<std::string> names_of_broken();

 private:
  void judge();

  void run_rules();
  void data_rules();
  void blend_rules();
  void batch_rules();
  void size_rules();
  void graph_rules();
  void graph_mesh_rules();
  void model_rules();
  void head_rules();
  void rope_rules();
  void rope_layer_rules();
  void longrope_rules();
  void window_rules();
  void expert_rules();
  void expert_key_rules();
  void expert_group_rules();
  void expert_mesh_rules();
  void expert_memory_rules();
  void tensor_rules();
  void tensor_chunk_rules();
  void context_rules();
  void pipeline_rules();
  void sharding_rules();
  void unit_rules(bool gathers);
  void wrap_rules();
  void recompute_rules();
  void partition_rules();
  void precision_rules();
  void feedback_rules();
  void layer_rules();
  void fp8_size_rules();
  void fp8_expert_rules(std::int64_t multiple);
  void optimizer_rules();
  void group_rules();
  void health_rules();
  void debug_rules();
  void fault_rule();
};

// Whether weights, sums of gradients and moments are kept in the accumulator's type.
inline bool keeps_plain_state(const RunConfig& config) {
  optim::StoreConfig store;
  store.recipe = config.precision.recipe;
  return !store.low_precision_state();
}

// "a|b" holds "b".
inline bool among(std::string_view choices, std::string_view value) {
  while (true) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

inline std::string ranks_text(std::int64_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

inline std::int64_t next_multiple(std::int64_t value, std::int64_t of) {
  return divide_up(value, of) * of;
}

// `most` multiples of `of`, from `value` up.
std::vector<std::string> multiples_from(std::int64_t value, std::int64_t of,
                                        int most = 32);
// The divisors of `value` up to `limit`, the largest first; both at least 1.
std::vector<std::string> divisors_up_to(std::int64_t value, std::int64_t limit);
// Whole numbers from `first` to `last`, up or down.
std::vector<std::string> numbers(std::int64_t first, std::int64_t last);

}  // namespace trireme::config
