// What the messages of broken rules advise: values that were tried on the whole deck.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "train/deck_table.hpp"
#include "train/rules.hpp"

namespace trireme::train {
namespace {

// No message tries more values than this.
constexpr std::int64_t most_values = 64;

bool has(const std::set<std::string>& all, const std::string& one) {
  return all.contains(one);
}

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

bool Rules::try_out(const std::string& key, const std::string& value,
                    std::set<std::string>& broken) const {
  const std::array overrides = {key + "=" + value};
  const auto deck = io::Deck::parse_leniently(
      deck_.effective(), "advice",
      std::span(overrides).first(key.empty() ? 0 : overrides.size()), deck_table());
  if (!key.empty() && !deck.sound(key)) return false;
  const int ranks = key.empty() ? std::stoi(value) : ranks_;
  const RunConfig config = read_run_config(
      deck, ranks, ranks_on_node_ > 0 ? std::min(ranks_on_node_, ranks) : 0);
  Rules rules(deck, config, ranks, ranks_on_node_);
  rules.quiet_ = true;
  rules.judge();
  broken = std::move(rules.names_);
  return true;
}

const std::set<std::string>& Rules::broken_now() const {
  if (broken_now_.empty()) try_out("", std::to_string(ranks_), broken_now_);
  return broken_now_;
}

std::string Rules::advise(const std::vector<Advice>& all) const {
  const std::set<std::string>& now = broken_now();
  const auto first_good = [&](const Advice& advice, bool alone) -> std::string {
    for (const std::string& value : advice.values) {
      std::set<std::string> then;
      if (!try_out(advice.key, value, then) || has(then, under_way_)) continue;
      const bool no_worse =
          std::includes(now.begin(), now.end(), then.begin(), then.end());
      if (no_worse || alone) return value;
    }
    return {};
  };
  for (const bool alone : {false, true}) {
    std::string write, start;
    for (const Advice& advice : all) {
      const std::string value = first_good(advice, alone);
      if (value.empty()) continue;
      if (advice.key.empty()) {
        start += (start.empty() ? "start " : " or ") + ranks_text(std::stoll(value));
      } else {
        write += (write.empty() ? "write " : " or ") + advice.key + " = " + value;
      }
    }
    if (write.empty() && start.empty()) continue;
    return ": " + write + (write.empty() || start.empty() ? "" : ", or ") + start;
  }
  return ": no other value of one of these keys alone will do";
}

}  // namespace trireme::train
