// How one rule is judged and reported, and the rules that many keys share.
// SPDX-License-Identifier: Apache-2.0
#include "config/rule_check.hpp"

#include <algorithm>

#include "config/rules.hpp"

namespace trireme::config {

bool RuleCheck::all_sound(const Keys& keys) const {
  return std::all_of(keys.all.begin(), keys.all.end(),
                     [&](const io::DeckKey& key) { return deck_.sound(key); });
}

bool RuleCheck::begin_problem(const Keys& keys) {
  state_.under_way = std::string(keys.at.file_name()) + std::to_string(keys.at.line());
  for (const io::DeckKey& key : keys.all) state_.under_way += " " + full_name(key);
  state_.names.insert(state_.under_way);
  return !state_.quiet;
}

void RuleCheck::end_problem(const Keys& keys, const std::string& text,
                            bool ranks_would_do) {
  // The message names the place of the first key that was given.
  const auto given =
      std::find_if(keys.all.begin(), keys.all.end(),
                   [&](const io::DeckKey& key) { return deck_.given(key); });
  const std::string place = given == keys.all.end() ? "default" : deck_.where(*given);
  state_.broken.problems.push_back({place, "", "", text});
  state_.broken.only_ranks = state_.broken.only_ranks && ranks_would_do;
}

std::string RuleCheck::show(const io::DeckKey& key) const {
  return full_name(key) + " = " + deck_.value_text(key);
}

std::string RuleCheck::show(const io::DeckKey& key, std::int64_t resolved) const {
  const std::string text = std::to_string(resolved);
  return show(key) + (deck_.value_text(key) == text ? "" : " (that is, " + text + ")");
}

void RuleCheck::divides(Resolved part, Resolved whole, Mend mend,
                        const std::source_location& at) {
  const bool part_first = mend == Mend::part_or_whole;
  const io::DeckKey& first = part_first ? part.key : whole.key;
  const io::DeckKey& second = part_first ? whole.key : part.key;
  rule(
      Keys({first, second}, at), [&] { return whole.value % part.value == 0; }, whole.key,
      " must be divisible by ", part.key,
      [&] {
        const std::int64_t least = std::max<std::int64_t>(whole.value, 1);
        const Advice wholes(whole.key, multiples_from(whole.value, part.value)),
            parts(part.key, divisors_up_to(least, part.value));
        if (mend == Mend::part) return advise({parts});
        return part_first ? advise({parts, wholes}) : advise({wholes, parts});
      });
}

void RuleCheck::meaningless(const io::DeckKey& key, const io::DeckKey& beside, bool when,
                            std::string_view tail, const std::source_location& at) {
  rule(
      Keys({key, beside}, at), [&] { return !when || deck_.is_default(key); }, key,
      " has no meaning with ", beside, tail);
}

void RuleCheck::meaningless(const io::DeckKey& key, const io::DeckKey& beside, bool when,
                            const std::vector<Advice>& mends,
                            const std::source_location& at) {
  rule(
      Keys({key, beside}, at), [&] { return !when || deck_.is_default(key); }, key,
      " has no meaning with ", beside, [&] { return advise(mends); });
}

void RuleCheck::needs_plain_state(const io::DeckKey& key, const char* without,
                                  const std::source_location& at) {
  rule(
      Keys({key::precision.recipe, key::precision.master, key::precision.moments, key},
           at),
      [&] { return keeps_plain_state(config_); }, key,
      " needs master weights, gradient sums and moments in the accumulator's type, but ",
      key::precision.recipe, " with ", key::precision.master, " and ",
      key::precision.moments, " has fewer bits",
      [&] {
        return advise({{key::precision.moments, {"\"auto\""}},
                       {key::precision.master, {"\"auto\""}},
                       {key::precision.recipe, {"\"auto\""}},
                       {key, {without}}});
      });
}

}  // namespace trireme::config
