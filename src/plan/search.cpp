// The search, best first, and the neighbours of its winner.
// SPDX-License-Identifier: Apache-2.0
#include "plan/search.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "base/format.hpp"
#include "base/side_by_side.hpp"

namespace trireme::plan {
namespace {

// How much is known of a candidate's time.
enum class Known : std::uint8_t { estimated, simulated, planned };

struct Entry {
  double seconds = 0;
  optim::Offload offload = optim::Offload::none;
  bool activations = false;  // are offloaded
  double bytes = 0;
  Known known = Known::estimated;
  std::size_t index = 0;  // of the candidate, or of the plan
};
struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    return std::tie(a.seconds, a.offload, a.activations, a.bytes, a.index) >
           std::tie(b.seconds, b.offload, b.activations, b.bytes, b.index);
  }
};

class Searcher {
 public:
  Searcher(const SearchSpace& space, const PlannedDevice& on, const MemoryRoom& room,
           const SearchLimits& limits)
      : space_(space),
        on_(on),
        room_(room),
        limits_(limits),
        quick_estimate_(space, on) {}

  SearchResult run() {
    estimate_all();
    while (!queue_.empty() && final_.size() < limits_.top) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (entry.known == Known::planned)
        final_.push_back(entry.index);
      else if (!refine(entry))
        break;
    }
    finish();
    return std::move(result_);
  }

 private:
  bool fits(double bytes, double host_bytes = 0) const {
    return MemoryNeed{bytes, host_bytes}.fits(room_);
  }

  void estimate_all() {
    const std::vector<Candidate>& all = space_.candidates();
    result_.candidates = all.size();
    estimates_.resize(all.size());
    quick_estimate_.ways().prepare(all);
    std::vector<std::optional<double>> least(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      least[i] = quick_estimate_.least_bytes(all[i]);
    quick_estimate_.ways().prepare_halves(
        all, [&](std::size_t i) { return least[i].has_value() && may_fit(*least[i]); });
    for (std::size_t i = 0; i < all.size(); ++i) estimate_one(all[i], i, least[i]);
    if (result_.estimated.empty()) find_least_bytes();
  }

  void estimate_one(const Candidate& candidate, std::size_t i,
                    std::optional<double> least) {
    if (!least) {
      ++result_.refused;
      return;
    }
    if (!may_fit(*least)) {
      ++result_.too_large;
      if (result_.estimated.empty()) too_large_.emplace_back(*least, i);
      return;
    }
    estimates_[i] = *quick_estimate_.estimate(candidate);
    const Estimate& estimate = estimates_[i];
    note_bytes(estimate.bytes);
    if (!may_fit(estimate.bytes)) {
      ++result_.too_large;
      return;
    }
    result_.estimated.push_back(estimate);
    queue_.push({(1 - estimate_margin) * estimate.seconds, candidate.offload,
                 candidate.offloads_activations, estimate.bytes, Known::estimated, i});
  }

  bool may_fit(double bytes) const { return fits((1 - estimate_margin) * bytes); }

  void note_bytes(double bytes) {
    if (result_.least_bytes == 0 || bytes < result_.least_bytes)
      result_.least_bytes = bytes;
  }

  // Where one fits it needs less than those that do not, of which a lower bound is known.
  void find_least_bytes() {
    std::sort(too_large_.begin(), too_large_.end());
    for (const auto& [least, i] : too_large_) {
      if (result_.least_bytes > 0 && least >= result_.least_bytes) break;
      note_bytes(quick_estimate_.estimate(space_.candidates()[i])->bytes);
    }
  }

  // Learns more of a candidate. False: no more plans are to be made.
  bool refine(const Entry& entry) {
    const Candidate& candidate = space_.candidates()[entry.index];
    if (!is_next_planned(entry)) {
      const double seconds = quick_estimate_.simulated_seconds(candidate);
      estimates_[entry.index].seconds = seconds;
      queue_.push({std::max(entry.seconds, (1 - estimate_margin) * seconds),
                   entry.offload, entry.activations, entry.bytes, Known::simulated,
                   entry.index});
      return true;
    }
    if (result_.planned.size() >= limits_.most_plans) return false;
    if (!made_.contains(entry.index)) make_plans(entry);
    std::optional<PlannedCandidate> planned = std::move(made_.at(entry.index));
    if (!planned) {
      ++result_.refused;
      return true;
    }
    result_.planned.push_back(std::move(*planned));
    const PlannedCandidate& made = result_.planned.back();
    if (fits(made.bytes, made.host_bytes))
      queue_.push({made.seconds(), candidate.offload, candidate.offloads_activations,
                   made.bytes, Known::planned, result_.planned.size() - 1});
    return true;
  }

  // Whether the next that is learned of it is its plan.
  bool is_next_planned(const Entry& entry) const {
    return entry.known == Known::simulated ||
           (entry.known == Known::estimated &&
            space_.candidates()[entry.index].mesh.pipeline == 1);
  }

  // The plan of a candidate, and as many as there are other threads of those that come
  // after it in the queue: most come up soon, and what is known then is the same.
  void make_plans(const Entry& first) {
    std::vector<std::size_t> wanted = {first.index};
    std::vector<Entry> passed;
    const auto threads = static_cast<std::size_t>(on_.threads);
    while (wanted.size() < threads && passed.size() < 4 * threads && !queue_.empty()) {
      passed.push_back(queue_.top());
      queue_.pop();
      if (is_next_planned(passed.back()) && !made_.contains(passed.back().index))
        wanted.push_back(passed.back().index);
    }
    for (const Entry& entry : passed) queue_.push(entry);
    std::vector<std::optional<PlannedCandidate>> plans(wanted.size());
    std::vector<char> is_made(wanted.size(), 0);
    side_by_side(wanted.size(), threads, [&](std::size_t i) {
      try {
        plans[i] = plan_candidate(space_.candidates()[wanted[i]], estimates_[wanted[i]],
                                  wanted.size() == 1 ? on_.threads : 1);
        is_made[i] = 1;
      } catch (const Error&) {
        if (i == 0) throw;  // what nobody has asked for yet ends nothing
      }
    });
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (is_made[i] != 0) made_[wanted[i]] = std::move(plans[i]);
  }

  std::optional<PlannedCandidate> plan_candidate(const Candidate& candidate,
                                                 const Estimate& estimate,
                                                 int threads) const {
    const auto config = space_.deck().make(space_.overrides(candidate));
    if (!config) return std::nullopt;
    PlannedDevice on = on_;
    on.threads = threads;
    const std::vector<Plan> plans = plan_stages(*config, on);
    const MemoryNeed need = memory_need(plans, on);
    return PlannedCandidate{candidate, need.device, need.host, estimate.seconds,
                            predict(*config, plans, *on.machine)};
  }

  // Those that are final, then other plans that fit, by time.
  void finish() {
    result_.proven = final_.size();
    std::vector<bool> taken(result_.planned.size());
    for (const std::size_t i : final_) {
      taken[i] = true;
      result_.ranked.push_back(result_.planned[i]);
    }
    std::vector<PlannedCandidate> rest;
    for (std::size_t i = 0; i < result_.planned.size(); ++i)
      if (const PlannedCandidate& one = result_.planned[i];
          !taken[i] && fits(one.bytes, one.host_bytes))
        rest.push_back(one);
    std::stable_sort(rest.begin(), rest.end(),
                     [](const PlannedCandidate& a, const PlannedCandidate& b) {
                       return std::pair(a.seconds(), a.bytes) <
                              std::pair(b.seconds(), b.bytes);
                     });
    result_.ranked.insert(result_.ranked.end(), rest.begin(), rest.end());
    if (!result_.ranked.empty()) find_neighbours();
  }

  void find_neighbours();
  void add_nearest(const char* key, int comm::MeshShape::*axis);
  template <class Same>
  void add_others(const Same& differs_only_here);
  void add_neighbour(const std::string& difference, const Candidate& candidate);
  void plan_neighbours();

  const SearchSpace& space_;
  PlannedDevice on_;
  MemoryRoom room_;
  SearchLimits limits_;
  QuickEstimate quick_estimate_;
  SearchResult result_;
  std::vector<Estimate> estimates_;
  // As long as none fits: the least bytes of each that does not, and which it is.
  std::vector<std::pair<double, std::size_t>> too_large_;
  std::vector<std::size_t> final_;  // of result_.planned
  // Plans by candidate, some of which were made before they were asked for.
  std::map<std::size_t, std::optional<PlannedCandidate>> made_;
  std::vector<std::pair<std::string, Candidate>> neighbours_;  // to be planned
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
};

// "key = value", as the deck writes it, that b says and a does not.
std::string difference_of(const SearchSpace& space, const Candidate& a,
                          const Candidate& b) {
  const std::vector<std::string> of_a = space.overrides(a), of_b = space.overrides(b);
  std::map<std::string, std::string> before;
  for (const std::string& one : of_a) before[one.substr(0, one.find('='))] = one;
  static const std::set<std::string> follows = {"parallel.sequence",
                                                "parallel.shard_group",
                                                "parallel.tensor_chunks",
                                                "parallel.wrap",
                                                "parallel.prefetch",
                                                "parallel.gathered_units",
                                                "parallel.wrap_parameters",
                                                "parallel.wrap_names",
                                                "parallel.offload_activations_fraction"};
  std::string text;
  for (const std::string& one : of_b) {
    const auto at = one.find('=');
    const std::string key = one.substr(0, at);
    if (follows.contains(key)) continue;
    const auto found = before.find(key);
    if (found == before.end() || found->second == one) continue;
    text += format("{}{} = {} instead of {}", text.empty() ? "" : ", ", key,
                   one.substr(at + 1), found->second.substr(at + 1));
  }
  return text;
}

void Searcher::add_neighbour(const std::string& difference, const Candidate& candidate) {
  if (!difference.empty()) neighbours_.emplace_back(difference, candidate);
}

void Searcher::plan_neighbours() {
  result_.neighbours.resize(neighbours_.size());
  std::vector<std::pair<std::size_t, Estimate>> missing;  // places, with quick estimates
  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    const auto& [difference, candidate] = neighbours_[i];
    Neighbour& neighbour = result_.neighbours[i];
    neighbour.difference = difference;
    const auto made =
        std::find_if(result_.planned.begin(), result_.planned.end(),
                     [&](const PlannedCandidate& p) { return p.candidate == candidate; });
    if (made != result_.planned.end())
      neighbour.plan = *made;
    else if (const std::optional<Estimate> estimate = quick_estimate_.estimate(candidate))
      missing.emplace_back(i, *estimate);
  }
  side_by_side(missing.size(), static_cast<std::size_t>(on_.threads), [&](std::size_t i) {
    const auto& [place, estimate] = missing[i];
    result_.neighbours[place].plan =
        plan_candidate(neighbours_[place].second, estimate, 1);
  });
}

// The next smaller and the next larger value of an axis, data ranks making up for it.
void Searcher::add_nearest(const char* key, int comm::MeshShape::*axis) {
  if (space_.deck().fixed.contains(key)) return;
  const Candidate& winner = result_.ranked.front().candidate;
  const Candidate *below = nullptr, *above = nullptr;
  for (const Candidate& c : space_.candidates()) {
    Candidate same = c;
    same.mesh = winner.mesh;
    same.mesh.*axis = c.mesh.*axis;
    same.mesh.data = c.mesh.data;
    if (same.mesh != c.mesh || c.mesh == winner.mesh) continue;
    same = winner;
    same.mesh = c.mesh;
    same.shard = c.shard;
    same.sequence = c.sequence;
    if (axis == &comm::MeshShape::pipeline &&
        (winner.mesh.pipeline == 1 || c.mesh.pipeline == 1)) {
      // A pipeline of one rank has one schedule; next to it stands 1f1b.
      same.schedule = schedule::ScheduleKind::one_f_one_b;
      same.virtual_stages = 1;
    }
    if (!(same == c)) continue;
    const int value = c.mesh.*axis, own = winner.mesh.*axis;
    if (value < own && (below == nullptr || below->mesh.*axis < value)) below = &c;
    if (value > own && (above == nullptr || above->mesh.*axis > value)) above = &c;
  }
  for (const Candidate* c : {below, above})
    if (c != nullptr) add_neighbour(difference_of(space_, winner, *c), *c);
}

template <class Same>
void Searcher::add_others(const Same& differs_only_here) {
  const Candidate winner = result_.ranked.front().candidate;
  for (const Candidate& c : space_.candidates())
    if (!(c == winner) && differs_only_here(c, winner))
      add_neighbour(difference_of(space_, winner, c), c);
}

void Searcher::find_neighbours() {
  add_nearest("parallel.tensor", &comm::MeshShape::tensor);
  add_nearest("parallel.context", &comm::MeshShape::context);
  add_nearest("parallel.pipeline", &comm::MeshShape::pipeline);
  const auto nearest = [](auto value, auto own) {
    return value == 2 * own || own == 2 * value;
  };
  add_others([&](Candidate c, const Candidate& winner) {
    if (!nearest(c.expert, winner.expert)) return false;
    c.expert = winner.expert;
    return c == winner;
  });
  add_others([](Candidate c, const Candidate& winner) {
    c.schedule = winner.schedule;
    c.virtual_stages = winner.virtual_stages;
    return c == winner;
  });
  add_others([](Candidate c, const Candidate& winner) {
    c.strategy = winner.strategy;
    c.sharding = winner.sharding;
    c.shard = winner.shard;
    return c == winner;
  });
  add_others([&](Candidate c, const Candidate& winner) {
    if (!nearest(c.micro, winner.micro)) return false;
    c.micro = winner.micro;
    c.sequence = winner.sequence;
    return c == winner;
  });
  add_others([](Candidate c, const Candidate& winner) {
    c.recompute = winner.recompute;
    return c == winner;
  });
  add_others([](Candidate c, const Candidate& winner) {
    c.offload = winner.offload;
    return c == winner;
  });
  add_others([](Candidate c, const Candidate& winner) {
    c.offloads_activations = winner.offloads_activations;
    return c == winner;
  });
  add_others([](Candidate c, const Candidate& winner) {
    c.grid = winner.grid;
    return c == winner;
  });
  plan_neighbours();
}

}  // namespace

SearchResult search(const SearchSpace& space, const PlannedDevice& on,
                    const MemoryRoom& room, const SearchLimits& limits) {
  return Searcher(space, on, room, limits).run();
}

}  // namespace trireme::plan
