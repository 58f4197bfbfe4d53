// What measured runs near a run say of it, beyond the equations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <vector>

#include "bench/playbook/fit.hpp"

namespace trireme::bench {

// Corrects predictions by what the fitted runs nearby left over, and judges from their
// states how likely the slow one is. Both are tables of measured runs, not equations: the
// correction is the mean of a Gaussian process over the logarithms of what a run is
// (Rasmussen and Williams, 2006, eq. 2.25), the state a weighted vote.
class Neighbours {
 public:
  // runs: those fitted; constants: of fit_constants(runs).
  Neighbours(std::span<const FittedRun> runs, std::span<const double> constants);

  // The factor by which the run takes longer than the equations say.
  double correction(const PlaybookRun& run) const;

  // Between 0 and 1; 0 without a pipeline over several nodes, where there is no such
  // state.
  double slow_probability(const PlaybookRun& run) const;

 private:
  using Point =
      std::array<double, 7>;  // tensor, pipeline, data, micro, nodes, size, ZeRO
  static Point point_of(const PlaybookRun& run);
  static double nearness(const Point& a, const Point& b, const Point& lengths);

  std::vector<Point> corrected_;
  std::vector<double> weights_;
  std::vector<Point> states_;
  std::vector<bool> slow_;
};

// A state is taken for the slow one if it is so likely at least.
inline constexpr double slow_from = 0.65;

}  // namespace trireme::bench
