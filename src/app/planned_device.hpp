// Where the ranks of a plan would compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/run_config.hpp"
#include "plan/plan.hpp"

namespace trireme::app {

// Of deck and machine file alone: where the file says that ranks have GPUs, the plan is
// for GPUs, whatever this machine and this program have. Throws Error(bad_content) where
// the deck wants another device than the file has. machine: null where there is no file;
// then it is what a run here would find. threads: of this process that make plans.
plan::PlannedDevice planned_device(const config::RunSettings& run,
                                   const plan::Machine* machine, int threads);

// How many threads plans are shared out over: as many as OMP_NUM_THREADS says, else those
// of the cores that are this rank's, but no more than eight: plans are made on login
// nodes, which others use.
int planning_threads(int ranks_on_node);

}  // namespace trireme::app
