// Rules and costs, found once for each key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/measured_ways.hpp"

#include <utility>

#include "base/side_by_side.hpp"

namespace trireme::plan {

using schedule::ScheduleKind;

bool halves_backward(ScheduleKind kind) {
  return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v ||
         kind == ScheduleKind::dualpipe_v;
}

namespace {

// A value for each key of the candidates that are wanted, where it has none yet: of the
// first one with that key.
template <class Map, class Wanted, class Key, class Find>
void fill_missing(Map& map, std::span<const Candidate> candidates, std::size_t threads,
                  const Wanted& is_wanted, const Key& key_of, const Find& find) {
  std::vector<std::pair<typename Map::mapped_type*, const Candidate*>> missing;
  for (const Candidate& c : candidates) {
    if (!is_wanted(c)) continue;
    const auto [place, made] = map.try_emplace(key_of(c));
    if (made) missing.emplace_back(&place->second, &c);
  }
  side_by_side(missing.size(), threads,
               [&](std::size_t i) { *missing[i].first = find(*missing[i].second); });
}

}  // namespace

// With a schedule of one chunk, and without sharding, offload, recomputation; but for
// what the deck itself ties.
Candidate MeasuredWays::simple(const Candidate& c) const {
  Candidate simple = c;
  if (!space_.ties_schedule()) {
    simple.schedule = ScheduleKind::one_f_one_b;
    simple.virtual_stages = 1;
  }
  if (!space_.ties_sharding(c)) {
    simple.strategy = "NO_SHARD";
    simple.sharding = optim::Sharding::none;
    simple.shard = 1;
    simple.offload = optim::Offload::none;
    simple.offloads_activations = false;
  }
  if (!space_.ties_recompute()) simple.recompute = space_.first_recompute(c);
  return simple;
}

MeasuredWays::RulesKey MeasuredWays::rules_key(const Candidate& candidate) const {
  const Candidate c = simple(candidate);
  const auto number = [](auto x) { return static_cast<std::int64_t>(x); };
  return {number(c.grid),
          c.mesh.pipeline,
          c.mesh.context,
          c.mesh.tensor,
          c.expert,
          c.micro,
          number(c.schedule),
          c.virtual_stages,
          number(c.sharding),
          c.shard,
          number(c.recompute),
          number(c.offload),
          c.offloads_activations};
}

bool MeasuredWays::ask_rules(const Candidate& c) const {
  return space_.deck().make(space_.overrides(simple(c))).has_value();
}

bool MeasuredWays::allows(const Candidate& c) {
  const auto [found, made] = allowed_.try_emplace(rules_key(c), false);
  if (made) found->second = ask_rules(c);
  return found->second;
}

MeasuredWays::CostKey MeasuredWays::cost_key(const Candidate& c) {
  return {c.grid,  c.mesh.tensor, c.mesh.context, c.expert,
          c.micro, c.sequence,    c.recompute};
}

std::unique_ptr<MeasuredWays::Way> MeasuredWays::measure(const Candidate& c) const {
  auto way = std::make_unique<Way>();
  way->costs = measure_layers(space_.sketch(c), on_);
  return way;
}

MeasuredWays::Way& MeasuredWays::way_of(const Candidate& c) {
  std::unique_ptr<Way>& way = ways_[cost_key(c)];
  if (!way) way = measure(c);
  return *way;
}

void MeasuredWays::prepare(std::span<const Candidate> candidates) {
  const auto threads = static_cast<std::size_t>(on_.threads);
  fill_missing(
      allowed_, candidates, threads, [](const Candidate&) { return true; },
      [&](const Candidate& c) { return rules_key(c); },
      [&](const Candidate& c) { return ask_rules(c); });
  fill_missing(
      ways_, candidates, threads, [&](const Candidate& c) { return allows(c); }, cost_key,
      [&](const Candidate& c) { return measure(c); });
}

void MeasuredWays::prepare_halves(std::span<const Candidate> candidates,
                                  const std::function<bool(std::size_t)>& may_fit) {
  struct Wanted {
    Way* way;
    const Candidate* candidate;
    const std::vector<Range>* cut;
  };
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    if (!halves_backward(c.schedule) || !may_fit(i)) continue;
    Way& way = way_of(c);
    if (way.halves || std::exchange(way.halves_wanted, true)) continue;
    wanted.push_back({&way, &c, &halves_cut(c)});
  }
  side_by_side(wanted.size(), static_cast<std::size_t>(on_.threads), [&](std::size_t i) {
    const auto& [way, c, cut] = wanted[i];
    way->halves = measure_halves(space_.sketch(*c), *cut, way->costs, on_);
  });
}

const std::vector<Range>& MeasuredWays::halves_cut(const Candidate& c) {
  const auto [cut, made] = halves_cuts_.try_emplace(c.grid);
  if (made) cut->second = cut_for_halves(space_.sketch(c));
  return cut->second;
}

const HalvesCost& MeasuredWays::halves_of(const Candidate& c, Way& way) {
  if (!way.halves)
    way.halves = measure_halves(space_.sketch(c), halves_cut(c), way.costs, on_);
  return *way.halves;
}

}  // namespace trireme::plan
