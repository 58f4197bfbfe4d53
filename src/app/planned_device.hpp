// Where the ranks of a plan would compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/run_config.hpp"
#include "plan/plan.hpp"

namespace trireme::app {

// Where a machine file says that ranks have GPUs, the plan is for GPUs, whatever this
// machine has; the deck's own wish goes first. machine: null where there is no file.
plan::PlannedDevice planned_device(const config::RunSettings& run,
                                   const plan::Machine* machine);

}  // namespace trireme::app
