// Rules: how rules about several deck keys are judged and reported. Internal to
// run_rules*.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/split.hpp"
#include "train/run_rules.hpp"

namespace trireme::train {

using Keys = std::initializer_list<std::string_view>;

class Rules {
 public:
  Rules(const io::Deck& deck, const RunConfig& config, int ranks)
      : deck_(deck), config_(config), ranks_(ranks) {}

  BrokenRules check() {
    broken_.problems = not_available_yet(deck_);
    broken_.only_ranks = broken_.problems.empty();
    run_rules();
    graph_rules();
    model_rules();
    tensor_rules();
    context_rules();
    expert_rules();
    pipeline_rules();
    sharding_rules();
    recompute_rules();
    batch_rules();
    size_rules();
    data_rules();
    precision_rules();
    optimizer_rules();
    group_rules();
    debug_rules();
    return std::move(broken_);
  }

 private:
  // One rule: unless holds() is true, text() becomes a problem. Not judged when one of
  // `keys` is wrong in itself. ranks_would_do: another number of ranks satisfies it.
  template <class Holds, class Text>
  void rule(Keys keys, Holds holds, Text text, bool ranks_would_do = false) {
    for (const auto key : keys)
      if (!deck_.sound(key)) return;
    if (holds()) return;
    broken_.problems.push_back({place(keys), "", "", text()});
    broken_.only_ranks = broken_.only_ranks && ranks_would_do;
  }

  // Where the first key that was given stands.
  std::string place(Keys keys) const {
    for (const auto key : keys)
      if (deck_.given(key)) return deck_.where(key);
    return "default";
  }

  // "model.heads = 5"
  std::string show(std::string_view key) const {
    return std::string(key) + " = " + deck_.value_text(key);
  }
  // The same where a default of 0 was resolved: "model.kv_heads = 0 (that is, 5)".
  std::string show(std::string_view key, std::int64_t resolved) const {
    const std::string text = std::to_string(resolved);
    return show(key) + (deck_.value_text(key) == text ? "" : " (that is, " + text + ")");
  }

  void run_rules();
  void graph_rules();
  void graph_mesh_rules();
  void model_rules();
  void tensor_rules();
  void context_rules();
  void expert_rules();
  void expert_key_rules();
  void expert_mesh_rules();
  void pipeline_rules();
  void sharding_rules();
  void unit_rules(bool gathers);
  void wrap_rules();
  void recompute_rules();
  void partition_rules();
  void batch_rules();
  void size_rules();
  void data_rules();
  void precision_rules();
  void feedback_rules();
  void layer_rules();
  void fp8_size_rules();
  void fp8_expert_rules(std::int64_t multiple);
  void optimizer_rules();
  void group_rules();
  void debug_rules();
  void fault_rule();

  const io::Deck& deck_;
  const RunConfig& config_;
  int ranks_;
  BrokenRules broken_;
};

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

// The largest divisor of `value` that is at most `limit`; both at least 1.
inline std::int64_t divisor_below(std::int64_t value, std::int64_t limit) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    if (d <= limit) best = std::max(best, d);
    if (value / d <= limit) best = std::max(best, value / d);
  }
  return best;
}

}  // namespace trireme::train
