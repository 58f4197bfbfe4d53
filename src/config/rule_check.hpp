// RuleCheck: how rules about several deck keys are judged and reported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.hpp"
#include "config/run_config.hpp"
#include "io/deck.hpp"

namespace trireme::config {

struct BrokenRules {
  std::vector<io::DeckProblem> problems;
  bool only_ranks = true;  // another number of ranks would satisfy every broken rule
};

using KeyRef = std::reference_wrapper<const io::DeckKey>;

// The keys that a rule is about, and where the rule stands.
struct Keys {
  Keys(std::initializer_list<KeyRef> keys,
       const std::source_location& place = std::source_location::current())
      : all(keys), at(place) {}
  std::vector<KeyRef> all;
  std::source_location at;
};

// A key with its value, where a default of 0 was resolved.
struct Resolved {
  const io::DeckKey& key;
  std::int64_t value;
};

// What a message may advise to write: values of one key as TOML, the best first. Without
// a key they are numbers of ranks.
struct Advice {
  Advice(const io::DeckKey& of, std::vector<std::string> best_first)
      : what(&of), key(full_name(of)), values(std::move(best_first)) {}
  explicit Advice(std::vector<std::string> ranks) : values(std::move(ranks)) {}
  const io::DeckKey* what = nullptr;
  std::string key;
  std::vector<std::string> values;
};

// What divides() advises to change, the first choice first.
enum class Mend : std::uint8_t { whole_or_part, part_or_whole, part };

// What the rules of all sections share while one deck is judged.
struct RuleState {
  // Names of the rules that are broken with a key of the deck changed, or none; nothing
  // where the value is wrong in itself.
  struct Tried {
    bool sound = false;
    std::set<std::string> broken;
  };

  RuleState(const io::Deck& of, const RunConfig& read, int all_ranks, int of_node)
      : deck(of), config(read), ranks(all_ranks), ranks_on_node(of_node) {}

  const io::Deck& deck;
  const RunConfig& config;
  int ranks, ranks_on_node;
  bool quiet = false;   // only names are wanted
  bool stored = false;  // a checkpoint's deck: another version wrote it, perhaps
  BrokenRules broken;
  std::set<std::string> names;  // of the rules broken so far

  std::string under_way;   // name of the rule whose text is made
  std::string plain_deck;  // with all defaults, without comments
  std::map<std::string, Tried> tried;
};

// The rules of a section derive from this.
class RuleCheck {
 public:
  explicit RuleCheck(RuleState& state)
      : deck_(state.deck),
        config_(state.config),
        ranks_(state.ranks),
        ranks_on_node_(state.ranks_on_node),
        state_(state) {}

 protected:
  // One rule: unless `holds` (a bool, or a call that gives one), the parts make a
  // problem's text, one after another: a key stands for "model.heads = 5", a call for
  // what it returns. Not judged when one of `keys` is wrong in itself: write what could
  // then divide by zero as a call.
  template <class Holds, class... Parts>
  void rule(const Keys& keys, const Holds& holds, const Parts&... parts) {
    judge_one(keys, holds, false, parts...);
  }
  // The same where another number of ranks satisfies the rule.
  template <class Holds, class... Parts>
  void ranks_rule(const Keys& keys, const Holds& holds, const Parts&... parts) {
    judge_one(keys, holds, true, parts...);
  }

  // Common rules, a line each where they are used.
  // `part` must divide `whole`.
  void divides(Resolved part, Resolved whole, Mend mend = Mend::whole_or_part,
               const std::source_location& at = std::source_location::current());
  // Where `when`, what `beside` says leaves `key` without a meaning: it must keep its
  // default. (Written out it stays legal, so that a deck in force is.) The message ends
  // with `tail`, or advises.
  void meaningless(const io::DeckKey& key, const io::DeckKey& beside, bool when,
                   std::string_view tail,
                   const std::source_location& at = std::source_location::current());
  void meaningless(const io::DeckKey& key, const io::DeckKey& beside, bool when,
                   const std::vector<Advice>& mends,
                   const std::source_location& at = std::source_location::current());

  // What `key` says needs master weights, gradient sums and moments in full; with the
  // value `without` it does not.
  void needs_plain_state(
      const io::DeckKey& key, const char* without,
      const std::source_location& at = std::source_location::current());

  // ": write A = 1 or B = 2, or start 4 ranks": of each advice the first value with which
  // the rule under way holds and no other rule is broken that holds now; if none has one,
  // a value and another number of ranks; if there is none either, the first value with
  // which at least this rule holds. Nothing is advised that is not tried, and no key that
  // the model of model.from gives.
  std::string advise(const std::vector<Advice>& all) const;

  // " and A = 0 and B = []": those of the keys that have another value than their
  // default, with that, for advice that would leave them without a meaning.
  std::string and_defaults(std::initializer_list<KeyRef> keys) const;
  // "precision.margin = 0": the key with its default.
  static std::string default_of(const io::DeckKey& key) {
    return full_name(key) + " = " + std::string(key.fallback);
  }
  // "precision.compute = "bf16"", with what else then has to change of a deck that
  // multiplies in another type.
  std::string bf16_instead() const;
  // What is advised where FP8 cannot multiply sizes: those, or bf16 where model.from has
  // them.
  std::string advise_for_fp8(const std::vector<Advice>& sizes) const;

  // "model.heads = 5"
  std::string show(const io::DeckKey& key) const;
  // The same where a default of 0 was resolved: "model.kv_heads = 0 (that is, 5)".
  std::string show(const io::DeckKey& key, std::int64_t resolved) const;

  // Whether the deck is a checkpoint's: rules that came later and ask nothing of the
  // model are not judged then.
  bool is_stored() const { return state_.stored; }
  bool nothing_broken() const { return state_.broken.problems.empty(); }
  // Whether only names of broken rules are wanted.
  bool is_quiet() const { return state_.quiet; }

  const io::Deck& deck_;
  const RunConfig& config_;
  const int ranks_, ranks_on_node_;

 private:
  template <class Holds, class... Parts>
  void judge_one(const Keys& keys, const Holds& holds, bool ranks_would_do,
                 const Parts&... parts) {
    if (!all_sound(keys)) return;
    if constexpr (std::is_invocable_v<const Holds&>) {
      if (holds()) return;
    } else {
      if (holds) return;
    }
    if (begin_problem(keys)) end_problem(keys, (text_of(parts) + ...), ranks_would_do);
  }

  template <class Part>
  std::string text_of(const Part& part) const {
    if constexpr (std::is_convertible_v<const Part&, const io::DeckKey&>)
      return show(part);
    else if constexpr (std::is_same_v<Part, Resolved>)
      return show(part.key, part.value);
    else if constexpr (std::is_invocable_v<const Part&>)
      return part();
    else
      return std::string(part);
  }

  bool all_sound(const Keys& keys) const;
  // Names the rule under way as broken; false if no text is wanted.
  bool begin_problem(const Keys& keys);
  void end_problem(const Keys& keys, const std::string& text, bool ranks_would_do);

  std::string advise_one(const std::vector<Advice>& all, bool rest_may_break) const;
  std::string advise_with_ranks(const std::vector<Advice>& all) const;
  // Whether the value, with this number of ranks, mends the rule under way and, unless
  // they may, breaks no other.
  bool mends(const std::string& key, const std::string& value, int ranks,
             bool rest_may_break) const;
  const RuleState::Tried& try_out(const std::string& key, const std::string& value,
                                  int ranks) const;

  RuleState& state_;
};

}  // namespace trireme::config
