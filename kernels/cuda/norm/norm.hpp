// CUDA implementation of kernels/norm.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/norm.hpp"

namespace trireme::kernels::cuda {

void rms_norm(Stream& stream, const TensorView& x_TD, const TensorView& gain_D,
              double eps, const TensorView& y_TD, const TensorView& rstd_T);
void add_rms_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                  const TensorView& gain_D, double eps, const TensorView& y_TD,
                  const TensorView& rstd_T);
void rms_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                       const TensorView& gain_D, const TensorView& rstd_T,
                       const TensorView& residual_TD, const TensorView& dx_TD,
                       const TensorView& dgain_D);
// Bytes of workspace that backward takes; centered: layer_norm_backward.
std::int64_t norm_backward_workspace(bool centered, const TensorView& dy_TD,
                                     const TensorView& x_TD, const TensorView& gain_D,
                                     const TensorView& residual_TD,
                                     const TensorView& dx_TD);
void layer_norm(Stream& stream, const TensorView& x_TD, const TensorView& gain_D,
                const TensorView& shift_D, double eps, const TensorView& y_TD,
                const TensorView& mean_T, const TensorView& rstd_T);
void add_layer_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                    const TensorView& gain_D, const TensorView& shift_D, double eps,
                    const TensorView& y_TD, const TensorView& mean_T,
                    const TensorView& rstd_T);
void layer_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                         const TensorView& gain_D, const TensorView& mean_T,
                         const TensorView& rstd_T, const TensorView& residual_TD,
                         const TensorView& dx_TD, const TensorView& dgain_D,
                         const TensorView& dshift_D);

}  // namespace trireme::kernels::cuda
