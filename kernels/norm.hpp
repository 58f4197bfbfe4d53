// RMSNorm and LayerNorm over rows, forward and backward.
// SPDX-License-Identifier: Apache-2.0
// T rows (tokens), D row length; x, y, dy, dx in the compute dtype, statistics and weight
// gradients in the accumulator dtype (f64 for f64, else f32).
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// What an RMSNorm multiplies by: offset + stored, added in the accumulator dtype. Gemma
// stores its gains less 1.
struct RmsGain {
  RmsGain(const TensorView& stored, double offset_of_all = 0)
      : stored_D(stored), offset(offset_of_all) {}
  TensorView stored_D;
  double offset;
};

// y_TD = x * rstd * gain, rstd = 1 / sqrt(mean(x^2) + eps). rstd_T is written for
// backward. Source: Zhang and Sennrich, 2019, eq. 4.
void rms_norm(Stream& stream, const TensorView& x_TD, const RmsGain& gain_D, double eps,
              const TensorView& y_TD, const TensorView& rstd_T);

// What the residual stream becomes before a norm: residual + branch (+ bias, which may be
// empty).
struct Addends {
  TensorView residual_TD, branch_TD, bias_D;
};

// x_TD (written) = the addends' sum, with the bits of add_bias(); then as rms_norm(). One
// pass over memory: a row is summed where it is normed. x_TD may be one of the addends.
void add_rms_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                  const RmsGain& gain_D, double eps, const TensorView& y_TD,
                  const TensorView& rstd_T);

// dx_TD is written; dgain_D (accumulation dtype) is added to. With `residual_TD` (may be
// empty, may be dx_TD itself) dx = residual + the norm's input gradient: the gradient
// that arrives over the skip connection is added in the same pass. The sum over rows has
// an order that depends on T and D alone, not on threads; on a GPU also on whether rows
// begin at multiples of 16 bytes.
void rms_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                       const RmsGain& gain_D, const TensorView& rstd_T,
                       const TensorView& residual_TD, const TensorView& dx_TD,
                       const TensorView& dgain_D);

// y_TD = (x - mean) * rstd * gain + shift, rstd = 1 / sqrt(variance + eps), biased
// variance. mean_T and rstd_T are written for backward. Source: Ba, Kiros, Hinton, 2016,
// eq. 3 and 4.
void layer_norm(Stream& stream, const TensorView& x_TD, const TensorView& gain_D,
                const TensorView& shift_D, double eps, const TensorView& y_TD,
                const TensorView& mean_T, const TensorView& rstd_T);

// As add_rms_norm, before layer_norm().
void add_layer_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                    const TensorView& gain_D, const TensorView& shift_D, double eps,
                    const TensorView& y_TD, const TensorView& mean_T,
                    const TensorView& rstd_T);

// As rms_norm_backward; dgain_D and dshift_D are added to.
void layer_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                         const TensorView& gain_D, const TensorView& mean_T,
                         const TensorView& rstd_T, const TensorView& residual_TD,
                         const TensorView& dx_TD, const TensorView& dgain_D,
                         const TensorView& dshift_D);

}  // namespace trireme::kernels
