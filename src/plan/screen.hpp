// Screen: an estimate of a candidate's time and memory without an engine of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/split.hpp"
#include "plan/layer_costs.hpp"
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
class Screen {
 public:
  // space and what `on` points at outlive this; on.machine must be there.
  Screen(const SearchSpace& space, const PlannedDevice& on) : space_(space), on_(on) {}

  // Nothing where the deck's rules refuse the candidate's mesh and batch with everything
  // else left simple.
  std::optional<Estimate> estimate(const Candidate& candidate);
  // No more than the estimate's bytes, and sooner known: without what halved backwards
  // keep, which takes a run of its own to learn. Nothing as above.
  std::optional<double> least_bytes(const Candidate& candidate);
  // The estimate with the simulation of the schedule in place of the closed form.
  double simulated_seconds(const Candidate& candidate);
  // How many kinds of layers were measured.
  std::size_t measured() const { return costs_.size(); }

 private:
  using CostKey = std::tuple<std::size_t, int, int, int, std::int64_t, bool, std::size_t>;
  // What a stage of a pipeline takes: sums over its layers.
  struct Measured {
    LayerCosts costs;
    std::optional<HalvesCost> halves;              // once a schedule needs it
    std::map<int, std::vector<LayerCost>> stages;  // by their number
  };
  // Microbatches of a chunk that a rank holds at once: [rank][chunk].
  using Slots = std::vector<std::vector<double>>;
  struct Parts {
    std::vector<schedule::StageCost> stages;  // seconds, by number
    std::vector<double> rank_seconds;         // of a microbatch, by pipeline rank
    double first_saves = 0;                   // of the rank that saves least
    double ending = 0, message = 0;
  };

  bool allows(const Candidate& candidate);
  Measured* measured_for(const Candidate& candidate);
  const std::vector<Range>& cut_of(const Candidate& c);
  const std::vector<LayerCost>& stages_of(Measured& measured, const Candidate& c);
  const Slots& slots_of(const Candidate& candidate);
  Parts parts(const Candidate& candidate, Measured& measured);
  double round_seconds(const Candidate& c, const LayerCost& rank) const;
  double ending(const Candidate& c, const LayerCosts& costs, const LayerCost& rank,
                double hidden) const;
  double kept_share(const Candidate& candidate, double layers_of_stage) const;
  double bytes(const Candidate& candidate, Measured& measured, bool with_halves);
  double nccl_bytes(const Candidate& candidate);
  const HalvesCost& halves_of(const Candidate& candidate, Measured& measured);
  double group_seconds(const char* group, const Candidate& c, int ranks,
                       double sent) const;
  std::int64_t microbatches(const Candidate& c) const;

  const SearchSpace& space_;
  PlannedDevice on_;
  std::map<CostKey, std::unique_ptr<Measured>> costs_;
  std::map<std::pair<std::size_t, int>, std::vector<Range>> cuts_;  // grid and stages
  std::map<std::size_t, std::vector<Range>> halves_cuts_;           // by grid
  std::map<std::vector<std::int64_t>, bool> allowed_;
  std::map<std::vector<std::int64_t>, Slots> slots_;
  std::map<std::vector<std::int64_t>, double> nccl_;
};

}  // namespace trireme::plan
