// The samples of a step, for people who look for the cause of a bad one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.hpp"
#include "io/sample_source.hpp"
#include "train/sample_turns.hpp"

namespace trireme::train {

// One JSON object a line for each sequence of the step (from 1), in the order of their
// numbers in the step: its number, which data rank has it in which microbatch and row,
// its place in the run's order of samples, the sample's number in the source and, of
// files, where its tokens lie. `order`: of the source and the run's seed; it is cheap for
// ascending steps. A pure function: any rank can say it for all. Throws Error(internal)
// for a step before the first.
std::string list_samples(const config::RunConfig& config, const io::SampleSource& source,
                         SampleOrder& order, std::int64_t step);

}  // namespace trireme::train
