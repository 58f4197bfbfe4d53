// What a search found, as text.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.hpp"
#include "base/text_table.hpp"
#include "plan/search.hpp"

namespace trireme::plan {
namespace {

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

// Seconds of a step, by what they go into.
struct Part {
  const char* name;
  double seconds;
};
std::array<Part, 6> parts_of(const Prediction& p) {
  const double busy = p.products + p.attention + p.sweeps;
  return {Part{"matrix products", p.products},
          Part{"attention", p.attention},
          Part{"other kernels", p.sweeps},
          Part{"collectives that nothing hides", p.exposed},
          Part{"what is offloaded", p.host},
          Part{"waiting for other pipeline ranks",
               std::max(0.0, p.step_seconds - busy - p.exposed - p.host)}};
}

std::string signed_seconds(double seconds) {
  return format("{}{}", seconds < 0 ? "-" : "+", human_seconds(std::abs(seconds)));
}

// The parts that change by more than a tenth of the largest change, most first; none by
// less than is written.
std::string why(const Prediction& winner, const Prediction& other) {
  const auto before = parts_of(winner), after = parts_of(other);
  std::vector<Part> changes;
  double largest = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    changes.push_back({before[i].name, after[i].seconds - before[i].seconds});
    largest = std::max(largest, std::abs(changes.back().seconds));
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Part& a, const Part& b) {
    return std::abs(a.seconds) > std::abs(b.seconds);
  });
  std::string text;
  for (const Part& change : changes)
    if (std::abs(change.seconds) > largest / 10 && std::abs(change.seconds) >= 5e-4)
      text += format("{}{} {}", text.empty() ? "" : ", ", change.name,
                     signed_seconds(change.seconds));
  return text;
}

std::string memory_change(double winner, double other) {
  if (std::abs(other - winner) < 0.005 * winner) return "as much memory";
  return format("{} {} memory", human_bytes(std::abs(other - winner)),
                other < winner ? "less" : "more");
}

std::string sentence(const Neighbour& neighbour, const PlannedCandidate& winner,
                     const MemoryRoom& room) {
  std::string text = format("  {}: ", neighbour.difference);
  if (!neighbour.plan) return text + "the deck's rules refuse it\n";
  const PlannedCandidate& plan = *neighbour.plan;
  if (room.bytes > 0 && plan.bytes > room.bytes)
    text += format("does not fit: {} of {}; ", human_bytes(plan.bytes),
                   human_bytes(room.bytes));
  else if (room.host_bytes > 0 && plan.host_bytes > room.host_bytes)
    text += format("does not fit: {} of {} of the node's memory; ",
                   human_bytes(plan.host_bytes), human_bytes(room.host_bytes));
  const double longer = plan.seconds() / winner.seconds() - 1;
  if (std::abs(longer) < 5e-4)
    text += "as fast";
  else
    text += format("{} {}", percent(std::abs(longer)), longer > 0 ? "slower" : "faster");
  const std::string reasons = why(winner.prediction, plan.prediction);
  if (std::abs(longer) >= 5e-4 && !reasons.empty()) text += format(" ({})", reasons);
  return text + format(", {}\n", memory_change(winner.bytes, plan.bytes));
}

std::string table(const SearchResult& result, const SearchSpace& space, std::size_t top) {
  std::vector<TextRow> rows = {{"", "tensor", "context", "pipeline", "expert", "data",
                                "schedule", "strategy", "micro", "recompute", "offload"}};
  for (const SearchGrid& grid : space.deck().grids) rows[0].push_back(grid.key);
  for (const char* name : {"step", "tokens/s", "of peak", "memory"})
    rows[0].emplace_back(name);
  const std::size_t count = std::min(top, result.ranked.size());
  for (std::size_t i = 0; i < count; ++i) {
    const PlannedCandidate& planned = result.ranked[i];
    TextRow row = {std::to_string(i + 1)};
    for (const std::string& word : space.words(planned.candidate)) {
      const auto at = word.find('=');
      row.push_back(at == std::string::npos ? word : word.substr(at + 1));
    }
    row.push_back(human_seconds(planned.seconds()));
    row.push_back(human_count(planned.prediction.tokens_per_second));
    row.push_back(percent(planned.prediction.mfu));
    row.push_back(human_bytes(planned.bytes));
    rows.push_back(std::move(row));
  }
  return text_table(rows, 0, 2);
}

// How far off the quick estimates were, and what is certain for that.
std::string estimate_text(const SearchResult& result) {
  double low = 0, high = 0;
  for (const PlannedCandidate& planned : result.planned) {
    const double off = planned.estimated_seconds / planned.seconds() - 1;
    low = std::min(low, off);
    high = std::max(high, off);
  }
  std::string certain = format(
      "no deck that was not planned can beat the first {}, if the estimate says at "
      "most {} too much",
      result.proven, percent(estimate_margin));
  if (result.proven == 0)
    certain = "the search ended at its limit of plans, before the winner was certain";
  else if (high > estimate_margin)
    certain = format(
        "more than the {} that are allowed for, so that a deck that was not planned may "
        "beat the first {}: give a larger --top",
        percent(estimate_margin), result.proven);
  return format("its times were {} too low to {} too high; {}", percent(-low),
                percent(high), certain);
}

}  // namespace

std::string describe(const SearchResult& result, const SearchSpace& space,
                     const MemoryRoom& room, std::size_t top) {
  std::string text = format(
      "search    {} decks: {} refused by the deck's rules, {} too large by the estimate, "
      "{} planned exactly\n",
      result.candidates, result.refused, result.too_large, result.planned.size());
  if (result.ranked.empty()) return text;
  text += format("estimate  {}\n", estimate_text(result));
  text += format("best      of those that fit {} a rank\n",
                 room.bytes > 0 ? human_bytes(room.bytes) : std::string("any memory of"));
  text += table(result, space, top);
  const PlannedCandidate& winner = result.ranked.front();
  text += "why       what one change of the first would do\n";
  for (const Neighbour& neighbour : result.neighbours)
    text += sentence(neighbour, winner, room);
  return text;
}

}  // namespace trireme::plan
