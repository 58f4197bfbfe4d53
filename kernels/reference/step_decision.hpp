// Decisions about a step in double: the oracle of tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/step_decision.hpp"

namespace trireme::kernels::reference {

// The numbers of a decision, as kernels::decide_step() writes them. rows: loss and
// squares of each rank, one after the other.
std::vector<double> decide_step(const StepRule& rule, const std::vector<double>& rows);

}  // namespace trireme::kernels::reference
