// Rules: everything that must hold between deck keys, by section.
// SPDX-License-Identifier: Apache-2.0
// Each section's rules stand in rules_SECTION.cpp.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/split.hpp"
#include "config/rule_check.hpp"

namespace trireme::config {

// Checks every rule. `config` is what the deck says, resolved; values of keys that are
// not sound may be anything, and rules about them are not judged. stored: the deck is a
// checkpoint's, which an older version may have written.
BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks,
                        int ranks_on_node = 0, bool stored = false);

// Keys whose value asks for what this version cannot do yet, each with the values to
// write instead.
std::vector<io::DeckProblem> not_available_yet(const io::Deck& deck);

// The names of all broken rules, without their texts.
std::set<std::string> names_of_broken_rules(const io::Deck& deck, const RunConfig& config,
                                            int ranks, int ranks_on_node = 0);

// The rules of the deck's sections. Each class reports what is broken to the RuleState
// that it is made of; judge() in rules.cpp says in which order.

class RunRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void run_rules();
  void data_rules();
  void batch_rules();
  void size_rules();

 private:
  void best_rules();
  void blend_rules();
};

class DataRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void sample_rules();
  void profile_rules();
  void infilling_rules();
  void preference_rules();
  void ramp_rules();
  void skip_rules();

 private:
  void ramp_part_rules(const io::DeckKey& key, const std::vector<std::string>& parts);
};

class GraphRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void graph_rules();

 private:
  void graph_mesh_rules();
};

class ModelRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void model_rules();

 private:
  void head_rules();
  void rope_rules();
  void rope_layer_rules();
  void longrope_rules();
  void window_rules();
  void latent_rules();
  void linear_rules();
};

class ExpertRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void expert_rules();

 private:
  void expert_key_rules();
  void expert_group_rules();
  void expert_mesh_rules();
  void expert_memory_rules();
};

class MeshRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void tensor_rules();
  void context_rules();
  void pipeline_rules();

 private:
  void tensor_chunk_rules();
};

// What is sharded, recomputed, or lies in the host's memory or on a disk.
class MemoryRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void sharding_rules();
  void recompute_rules();

 private:
  void unit_rules(bool gathers);
  void wrap_rules();
  void partition_rules();
  void offload_rules();
  void offload_activations_rules();
};

class PrecisionRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void precision_rules();

 private:
  void loss_scale_rules();
  void feedback_rules();
  void layer_rules();
  void fp8_size_rules();
  void fp8_expert_rules(std::int64_t multiple);
};

class OptimizerRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void optimizer_rules();
  void group_rules();
};

// Copies of the model that take steps by themselves.
class OuterRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void outer_rules();

 private:
  void outer_mesh_rules();
  void outer_round_rules();
};

// Sums that do not depend on the number of data ranks.
class ReproducibleRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void reproducible_rules();
};

class AdapterRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void adapter_rules();

 private:
  void quantize_rules();
  void dora_rules();
  void pattern_rule(const io::Key<std::vector<std::string>>& key, double least,
                    double most);
};

class HealthRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;
  void health_rules();
  void debug_rules();

 private:
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
