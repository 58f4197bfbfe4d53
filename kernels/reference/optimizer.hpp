// Optimizer updates of one element in double: the oracle of tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/optimizer.hpp"

namespace trireme::kernels::reference {

struct AdamWState {
  double weight = 0, moment1 = 0, moment2 = 0;
};

// The state after one step with `gradient`.
AdamWState adamw(const Update& rule, AdamWState state, double gradient);

struct SgdState {
  double weight = 0, buffer = 0;
};
SgdState sgd(const Update& rule, SgdState state, double gradient);

}  // namespace trireme::kernels::reference
