// RMSNorm and LayerNorm in double, as the formulas read: the oracle of the fast kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trireme::kernels::reference {

// T rows of D; mean_T stays zero in RMSNorm.
struct Normalized {
  std::vector<double> y_TD, mean_T, rstd_T;
};

// `shift_D` empty: RMSNorm, x / sqrt(mean(x^2) + eps) * gain; else LayerNorm.
Normalized norm(std::span<const double> x_TD, std::span<const double> gain_D,
                std::span<const double> shift_D, double eps);

struct NormGradients {
  std::vector<double> dx_TD, dgain_D, dshift_D;
};

// Gradients of <dy, y> by the chain rule through mean and variance, without the fused
// formula. `centered`: LayerNorm.
NormGradients norm_backward(std::span<const double> dy_TD, std::span<const double> x_TD,
                            std::span<const double> gain_D, double eps, bool centered);

}  // namespace trireme::kernels::reference
