// QuickEstimate: a candidate's time and memory without an engine of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/split.hpp"
#include "plan/measured_ways.hpp"
#include "plan/search_space.hpp"

namespace trireme::plan {

struct Estimate {
  double seconds = 0, bytes = 0;
};

// Layers are measured once for each way to run one (LayerCosts). From these, in closed
// form: what the busiest pipeline rank computes, what must pass before its first and
// after its last microbatch, messages between replicas as far as nothing can hide them,
// and the update. It leaves out what only a plan shows (waiting in the middle of a
// pipeline, buckets, working memory of gathers), so that it means to be too low, not too
// high.
class QuickEstimate {
 public:
  // space and what `on` points at outlive this; on.machine must be there.
  QuickEstimate(const SearchSpace& space, const PlannedDevice& on)
      : space_(space), on_(on), ways_(space, on) {}

  // What is measured, which may be prepared on several threads.
  MeasuredWays& ways() { return ways_; }

  // Nothing where the deck's rules refuse the candidate's mesh and batch with everything
  // else left simple.
  std::optional<Estimate> estimate(const Candidate& candidate);
  // No more than the estimate's bytes, and sooner known: without what halved backwards
  // keep, which takes a run of its own to learn. Nothing as above.
  std::optional<double> least_bytes(const Candidate& candidate);
  // The estimate with the simulation of the schedule in place of the closed form.
  double simulated_seconds(const Candidate& candidate);

 private:
  // Microbatches of a chunk that a rank holds at once: [rank][chunk].
  using Slots = std::vector<std::vector<double>>;
  struct Parts {
    std::vector<schedule::StageCost> stages;  // seconds, by number
    std::vector<double> rank_seconds;         // of a microbatch, by pipeline rank
    double first_saves = 0;                   // of the rank that saves least
    double ending = 0, message = 0;
  };

  const std::vector<Range>& cut_of(const Candidate& c);
  const std::vector<LayerCost>& stages_of(MeasuredWays::Way& way, const Candidate& c);
  const Slots& slots_of(const Candidate& candidate);
  Parts parts(const Candidate& candidate, MeasuredWays::Way& way);
  double round_seconds(const Candidate& c, const LayerCost& rank) const;
  double ending(const Candidate& c, const LayerCosts& costs, const LayerCost& rank,
                double hidden) const;
  double kept_share(const Candidate& candidate, double layers_of_stage) const;
  double bytes(const Candidate& candidate, MeasuredWays::Way& way, bool with_halves);
  double nccl_bytes(const Candidate& candidate);
  double group_seconds(const char* group, const Candidate& c, int ranks,
                       double sent) const;
  std::int64_t microbatches(const Candidate& c) const;

  const SearchSpace& space_;
  PlannedDevice on_;
  MeasuredWays ways_;
  std::map<std::pair<std::size_t, int>, std::vector<Range>> cuts_;  // grid and stages
  std::map<std::vector<std::int64_t>, Slots> slots_;
  std::map<std::vector<std::int64_t>, double> nccl_;
};

}  // namespace trireme::plan
