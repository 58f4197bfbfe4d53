// Activations in double: the oracle. One element at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.hpp"

namespace trireme::kernels::reference {

// The value of an activation at x, or, where it is gated, of gate x and what it lets
// through, up.
double activation(Activation kind, double x, double up = 1);
// Its derivative by x.
double activation_slope(Activation kind, double x, double up = 1);
// The derivative by up of one that is gated.
double activation_slope_of_up(Activation kind, double x, double up);

}  // namespace trireme::kernels::reference
