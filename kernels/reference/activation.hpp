// SwiGLU and GELU in double: the oracle. One element at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels::reference {

double silu(double x);
double silu_slope(double x);  // d silu / dx
// With the tanh, as Hendrycks and Gimpel write it.
double gelu(double x);
double gelu_slope(double x);

}  // namespace trireme::kernels::reference
