// Causal convolution of each channel along a sequence, with silu behind it.
// SPDX-License-Identifier: Apache-2.0
// T rows = B sequences of S positions, C channels, W taps.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

inline constexpr std::int64_t most_conv_taps = 8;

struct ConvShape {
  std::int64_t batch = 0;     // B
  std::int64_t sequence = 0;  // S
  // i32 [T], dense: where the document of each row begins in its sequence, before which
  // there is nothing; empty: a sequence is one document.
  TensorView starts_T{};
};

// y_TC (written) = silu(u), u[t, c] = sum over w < W of weight[c, w] x[t - (W - 1) + w,
// c] over the rows of t's document. One dtype; weight_CW is dense, rows of x and y may be
// strided; W is at most most_conv_taps.
// Source: Dao and Gu, "Mamba", 2023, section 3.4: the short convolution.
void causal_conv(Stream& stream, const ConvShape& shape, const TensorView& x_TC,
                 const TensorView& weight_CW, const TensorView& y_TC);

// dx_TC (written) and dweight_CW (added to, accumulator dtype) from dy_TC. u is made
// again. dx is none of the inputs; the order of sums depends on the shape alone.
void causal_conv_backward(Stream& stream, const ConvShape& shape, const TensorView& dy_TC,
                          const TensorView& x_TC, const TensorView& weight_CW,
                          const TensorView& dx_TC, const TensorView& dweight_CW);

}  // namespace trireme::kernels
