// Least squares with bounds, for the constants of the time model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "bench/playbook/step_time.hpp"

namespace trireme::bench {

// A run with its cut, which does not depend on constants.
struct FittedRun {
  PlaybookRun run;
  PlaybookCut cut;
};
std::vector<FittedRun> with_cuts(std::span<const PlaybookRun> runs);

// The spread of a run that is repeated: what is well within it counts as squares, what is
// far beyond it as absolute values (soft L1), so that odd runs bend nothing.
inline constexpr double repeat_spread = 0.05;

// The constants that bring the logarithms of predictions nearest to those of the measured
// seconds, by Levenberg and Marquardt's method on the constants' logarithms, each kept in
// its range. The same result to the bit at each call. Runs on 64 nodes count for a
// quarter.
std::vector<double> fit_constants(std::span<const FittedRun> runs);

}  // namespace trireme::bench
