// RMSNorm and LayerNorm in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/norm.hpp"

#include <cmath>

namespace trireme::kernels::reference {
namespace {

struct Moments {
  double mean = 0, mean_square = 0;  // the square is of x - mean
};

Moments moments(std::span<const double> x_D, bool centered) {
  const auto D = static_cast<double>(x_D.size());
  Moments m;
  if (centered)
    for (const double x : x_D) m.mean += x / D;
  for (const double x : x_D) m.mean_square += (x - m.mean) * (x - m.mean) / D;
  return m;
}

}  // namespace

Normalized norm(std::span<const double> x_TD, std::span<const double> gain_D,
                std::span<const double> shift_D, double eps) {
  const std::size_t D = gain_D.size(), T = x_TD.size() / D;
  Normalized out{std::vector<double>(T * D), std::vector<double>(T),
                 std::vector<double>(T)};
  for (std::size_t t = 0; t < T; ++t) {
    const auto m = moments(x_TD.subspan(t * D, D), !shift_D.empty());
    out.mean_T[t] = m.mean;
    out.rstd_T[t] = 1.0 / std::sqrt(m.mean_square + eps);
    for (std::size_t d = 0; d < D; ++d)
      out.y_TD[t * D + d] = (x_TD[t * D + d] - m.mean) * out.rstd_T[t] * gain_D[d] +
                            (shift_D.empty() ? 0.0 : shift_D[d]);
  }
  return out;
}

NormGradients norm_backward(std::span<const double> dy_TD, std::span<const double> x_TD,
                            std::span<const double> gain_D, double eps, bool centered) {
  const std::size_t D = gain_D.size(), T = x_TD.size() / D;
  NormGradients out{std::vector<double>(T * D), std::vector<double>(D),
                    std::vector<double>(D)};
  for (std::size_t t = 0; t < T; ++t) {
    const auto x = x_TD.subspan(t * D, D), dy = dy_TD.subspan(t * D, D);
    const auto m = moments(x, centered);
    const double rstd = 1.0 / std::sqrt(m.mean_square + eps);
    // y = (x - mean) rstd gain: gradients of rstd, of the mean square, then of the mean.
    double drstd = 0, dmean = 0;
    for (std::size_t d = 0; d < D; ++d) drstd += dy[d] * gain_D[d] * (x[d] - m.mean);
    const double dmean_square = -0.5 * drstd * rstd * rstd * rstd;
    for (std::size_t d = 0; d < D; ++d) {
      const double dcentered =
          dy[d] * gain_D[d] * rstd + dmean_square * 2.0 * (x[d] - m.mean) / double(D);
      out.dx_TD[t * D + d] = dcentered;
      dmean -= centered ? dcentered : 0.0;
      out.dgain_D[d] += dy[d] * (x[d] - m.mean) * rstd;
      out.dshift_D[d] += dy[d];
    }
    for (std::size_t d = 0; d < D; ++d) out.dx_TD[t * D + d] += dmean / double(D);
  }
  return out;
}

}  // namespace trireme::kernels::reference
