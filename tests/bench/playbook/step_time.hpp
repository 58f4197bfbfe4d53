// The time of a step of nanotron on H100 nodes, from constants of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bench/playbook/runs.hpp"

namespace trireme::bench {

// A constant of the time model: where the fit starts, and its plausible range.
struct PlaybookConstant {
  std::string_view name;
  std::string_view unit;
  double start = 0;
  double low = 0;
  double high = 0;
};

// All that is fitted, in the order in which step_time reads it.
std::span<const PlaybookConstant> playbook_constants();

// Seconds of a step in both states of the machine. In the slow one, which a part of the
// runs with a pipeline over several nodes was in, each message of the pipeline takes a
// quarter of a second.
struct StepTime {
  double normal = 0;
  double slow = 0;
};

// constants: a value for each of playbook_constants(). The run's measured values are not
// read.
StepTime step_time(const PlaybookRun& run, const PlaybookCut& cut,
                   std::span<const double> constants);

// What a measured run says of a prediction: log(predicted / measured), in the state that
// comes nearer where the run took over 1.35 times as long as the normal one.
struct Residual {
  double value = 0;
  bool slow = false;
};
Residual residual_of(const PlaybookRun& run, const StepTime& time);

// A run that can be in the slow state.
bool may_be_slow(const PlaybookRun& run);

// Whether a rank of the pipeline nearly fills its GPU, by the shape of the run alone. All
// measured runs with a pipeline that did were slow, on any number of nodes.
bool nearly_full(const PlaybookRun& run, const PlaybookCut& cut);

}  // namespace trireme::bench
