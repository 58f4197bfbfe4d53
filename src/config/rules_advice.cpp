// What the messages of broken rules advise: values that were tried on the whole deck.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <sstream>

#include "base/counted.hpp"
#include "base/number.hpp"
#include "config/deck_table.hpp"
#include "config/rules.hpp"
#include "config/start_model.hpp"

namespace trireme::config {
namespace {

// No message tries more values than this.
constexpr std::int64_t most_values = 32;

// Nor numbers of ranks that are farther from the given one than this.
constexpr int most_ranks_away = 8;

}  // namespace

std::vector<std::string> multiples_from(std::int64_t value, std::int64_t of, int most) {
  std::vector<std::string> all;
  const std::int64_t first = std::max(next_multiple(value, of), of);
  for (int i = 0; i < most; ++i) all.push_back(std::to_string(first + i * of));
  return all;
}

std::vector<std::string> divisors_up_to(std::int64_t value, std::int64_t limit) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    found.push_back(d);
    if (d != value / d) found.push_back(value / d);
  }
  std::erase_if(found, [limit](std::int64_t d) { return d > limit; });
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> all;
  for (const std::int64_t d : found) all.push_back(std::to_string(d));
  return all;
}

std::vector<std::string> numbers(std::int64_t first, std::int64_t last) {
  std::vector<std::string> all;
  const std::int64_t step = first <= last ? 1 : -1;
  const std::int64_t count = std::min(most_values, std::abs(last - first) + 1);
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back(std::to_string(first + i * step));
  return all;
}

const RuleState::Tried& RuleCheck::try_out(const std::string& key,
                                           const std::string& value, int ranks) const {
  const auto [found, fresh] =
      state_.tried.try_emplace(key + "=" + value + " on " + std::to_string(ranks));
  RuleState::Tried& tried = found->second;
  if (!fresh) return tried;
  if (state_.plain_deck.empty()) {
    std::istringstream lines(deck_.effective());
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with('#')) state_.plain_deck += line + "\n";
  }
  const std::array overrides = {key + "=" + value};
  const auto deck = io::Deck::parse_leniently(
      state_.plain_deck, "advice",
      std::span(overrides).first(key.empty() ? 0 : overrides.size()), deck_table());
  tried.sound = key.empty() || deck.sound(key);
  if (!tried.sound) return tried;
  const int here = ranks_on_node_ > 0 ? std::min(ranks_on_node_, ranks) : 0;
  const RunConfig config = read_run_config(deck, ranks, here);
  tried.broken = names_of_broken_rules(deck, config, ranks, here);
  return tried;
}

bool RuleCheck::mends(const std::string& key, const std::string& value, int ranks,
                      bool rest_may_break) const {
  const RuleState::Tried& then = try_out(key, value, ranks);
  if (!then.sound || then.broken.contains(state_.under_way)) return false;
  if (rest_may_break) return true;
  const std::set<std::string>& now = try_out("", "", ranks_).broken;
  return std::includes(now.begin(), now.end(), then.broken.begin(), then.broken.end());
}

std::string RuleCheck::advise_one(const std::vector<Advice>& all,
                                  bool rest_may_break) const {
  std::string write, start;
  bool one = false;  // rank
  for (const Advice& advice : all) {
    const bool of_ranks = advice.key.empty();
    const auto good = std::find_if(
        advice.values.begin(), advice.values.end(), [&](const std::string& value) {
          return of_ranks
                     ? mends("", "", parse_number<int>(value).value(), rest_may_break)
                     : mends(advice.key, value, ranks_, rest_may_break);
        });
    if (good == advice.values.end()) continue;
    if (of_ranks) {
      start += (start.empty() ? "start " : " or ") + *good;
      one = *good == "1";
    } else {
      write += (write.empty() ? "write " : " or ") + advice.key + " = " + *good;
    }
  }
  if (!start.empty()) start += one ? " rank" : " ranks";
  return write + (write.empty() || start.empty() ? "" : ", or ") + start;
}

std::string RuleCheck::advise_with_ranks(const std::vector<Advice>& all) const {
  constexpr std::size_t most_of_each = 4;
  for (const Advice& advice : all) {
    if (advice.key.empty()) continue;
    for (std::size_t i = 0; i < std::min(most_of_each, advice.values.size()); ++i) {
      // The nearest numbers first, up to twice as many.
      for (int away = 1; away <= std::min(ranks_, most_ranks_away); ++away) {
        for (const int ranks : {ranks_ - away, ranks_ + away}) {
          if (ranks >= 1 && mends(advice.key, advice.values[i], ranks, false))
            return "write " + advice.key + " = " + advice.values[i] + " and start " +
                   counted(ranks, "rank");
        }
      }
    }
  }
  return {};
}

std::string RuleCheck::advise(const std::vector<Advice>& from) const {
  std::vector<Advice> all = from;
  if (!config_.start_from.empty())
    std::erase_if(all, [&](const Advice& one) {
      return one.what != nullptr && is_of_start_model(*one.what);
    });
  std::string text = advise_one(all, false);
  if (text.empty()) text = advise_with_ranks(all);
  if (text.empty()) text = advise_one(all, true);
  if (!text.empty()) return ": " + text;
  return all.size() < from.size()
             ? ": no other value of a key that model.from leaves open will do alone"
             : ": no other value of one of these keys alone will do";
}

std::string RuleCheck::and_defaults(std::initializer_list<KeyRef> keys) const {
  std::string text;
  for (const io::DeckKey& each : keys)
    if (!deck_.is_default(each)) text += " and " + default_of(each);
  return text;
}

std::string RuleCheck::bf16_instead() const {
  return "precision.compute = \"bf16\"" +
         and_defaults({key::precision.recipe, key::precision.first_bf16,
                       key::precision.last_bf16, key::precision.keep_weight_codes,
                       key::precision.amax_history, key::precision.margin,
                       key::precision.loss_scale, key::precision.loss_scale_interval,
                       key::precision.loss_scale_floor});
}

std::string RuleCheck::advise_for_fp8(const std::vector<Advice>& sizes) const {
  return config_.start_from.empty() ? advise(sizes) : ": write " + bf16_instead();
}

}  // namespace trireme::config
