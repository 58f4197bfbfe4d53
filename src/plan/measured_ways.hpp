// MeasuredWays: which meshes the rules allow, and what each way to run a layer costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/split.hpp"
#include "plan/layer_costs.hpp"
#include "plan/search_space.hpp"

namespace trireme::plan {

// Whether a schedule runs backwards in two halves.
bool halves_backward(schedule::ScheduleKind kind);

// Both are found out once for all candidates that are alike in them, when one of these is
// first asked for, or on several threads before.
class MeasuredWays {
 public:
  // A way to run a layer: tensor, context and expert ranks, microbatch, recomputation.
  struct Way {
    LayerCosts costs;
    std::optional<HalvesCost> halves;              // once a schedule needs it
    bool halves_wanted = false;                    // by prepare_halves()
    std::map<int, std::vector<LayerCost>> stages;  // of a pipeline, by their number
  };

  // space and what `on` points at outlive this; on.machine must be there.
  MeasuredWays(const SearchSpace& space, const PlannedDevice& on)
      : space_(space), on_(on) {}

  // Finds out all that these candidates need but for halves, on on.threads threads.
  void prepare(std::span<const Candidate> candidates);
  // What halved backwards change, of candidates that have them and may_fit(their place).
  void prepare_halves(std::span<const Candidate> candidates,
                      const std::function<bool(std::size_t)>& may_fit);

  // Whether the deck's rules allow the mesh and batch with everything else left simple,
  // as far as no key that is fixed ties it.
  bool allows(const Candidate& candidate);
  // Of a candidate that is allowed.
  Way& way_of(const Candidate& candidate);
  const HalvesCost& halves_of(const Candidate& candidate, Way& way);

 private:
  using RulesKey = std::vector<std::int64_t>;
  using CostKey = std::tuple<std::size_t, int, int, int, std::int64_t, bool, std::size_t>;

  Candidate simple(const Candidate& candidate) const;
  RulesKey rules_key(const Candidate& candidate) const;
  static CostKey cost_key(const Candidate& candidate);
  bool ask_rules(const Candidate& candidate) const;
  std::unique_ptr<Way> measure(const Candidate& candidate) const;
  const std::vector<Range>& halves_cut(const Candidate& candidate);

  const SearchSpace& space_;
  PlannedDevice on_;
  std::map<RulesKey, bool> allowed_;
  std::map<CostKey, std::unique_ptr<Way>> ways_;
  std::map<std::size_t, std::vector<Range>> halves_cuts_;  // by grid
};

}  // namespace trireme::plan
