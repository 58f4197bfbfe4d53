// Rules: how rules about several deck keys are judged and reported. Internal to
// run_rules*.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/split.hpp"
#include "config/run_rules.hpp"

namespace trireme::config {

using Keys = std::initializer_list<std::string_view>;

// What a message may advise to write: values of one key as TOML, the best first. Without
// a key they are numbers of ranks.
struct Advice {
  std::string key;
  std::vector<std::string> values;
};

class Rules {
 public:
  Rules(const io::Deck& deck, const RunConfig& config, int ranks, int ranks_on_node)
      : deck_(deck), config_(config), ranks_(ranks), ranks_on_node_(ranks_on_node) {}

  BrokenRules check() {
    broken_.problems = not_available_yet(deck_);
    broken_.only_ranks = broken_.problems.empty();
    judge();
    return std::move(broken_);
  }

 private:
  void judge() {
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
    matrix_rules();
    optimizer_rules();
    group_rules();
    debug_rules();
  }

  // One rule: unless holds() is true, text() becomes a problem. Not judged when one of
  // `keys` is wrong in itself. ranks_would_do: another number of ranks satisfies it.
  template <class Holds, class Text>
  void rule(Keys keys, Holds holds, Text text, bool ranks_would_do = false,
            const std::source_location& at = std::source_location::current()) {
    for (const auto key : keys)
      if (!deck_.sound(key)) return;
    if (holds()) return;
    under_way_ = std::string(at.file_name()) + std::to_string(at.line());
    for (const auto key : keys) under_way_ += " " + std::string(key);
    names_.insert(under_way_);
    if (quiet_) return;
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

  // ": write A = 1 or B = 2, or start 4 ranks": of each advice the first value with which
  // the rule under way holds and no other rule is broken that holds now; if none has one,
  // a value and another number of ranks; if there is none either, the first value with
  // which at least this rule holds. Nothing is advised that is not tried.
  std::string advise(const std::vector<Advice>& all) const;
  std::string advise_one(const std::vector<Advice>& all, bool rest_may_break) const;
  std::string advise_with_ranks(const std::vector<Advice>& all) const;
  // Whether the value, with this number of ranks, mends the rule under way and, unless
  // they may, breaks no other.
  bool mends(const std::string& key, const std::string& value, int ranks,
             bool rest_may_break) const;
  // Names of the rules that are broken with a key of the deck changed, or none; nothing
  // where the value is wrong in itself.
  struct Tried {
    bool sound = false;
    std::set<std::string> broken;
  };
  const Tried& try_out(const std::string& key, const std::string& value, int ranks) const;

  void run_rules();
  void graph_rules();
  void graph_mesh_rules();
  void model_rules();
  void tensor_rules();
  void tensor_chunk_rules();
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
  void matrix_rules();
  void optimizer_rules();
  void group_rules();
  void debug_rules();
  void fault_rule();

  const io::Deck& deck_;
  const RunConfig& config_;
  int ranks_, ranks_on_node_;
  bool quiet_ = false;  // only names_ are wanted
  BrokenRules broken_;
  std::string under_way_;           // name of the rule whose text is made
  std::set<std::string> names_;     // of the rules broken so far
  mutable std::string plain_deck_;  // with all defaults, without comments
  mutable std::map<std::string, Tried> tried_;
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

// `most` multiples of `of`, from `value` up.
std::vector<std::string> multiples_from(std::int64_t value, std::int64_t of,
                                        int most = 32);
// The divisors of `value` up to `limit`, the largest first; both at least 1.
std::vector<std::string> divisors_up_to(std::int64_t value, std::int64_t limit);
// Whole numbers from `first` to `last`, up or down.
std::vector<std::string> numbers(std::int64_t first, std::int64_t last);

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

}  // namespace trireme::config
