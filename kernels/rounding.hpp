// Roundings of low-precision state: stochastic, and as square roots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/dtype.hpp"
#include "base/tensor_view.hpp"
#include "kernels/tensor_run.hpp"

namespace trireme::kernels {

// What a random number belongs to, beside an element of a tensor.
struct RoundingKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // a tensor and a use
  std::uint32_t step = 0;
};

// x = scale * round_stochastic(x / scale) in bf16, f16, E4M3 or E5M2, in place: the same
// bits for the same element of the tensor on every mesh and device. x_N f32, dense; scale
// a power of two.
void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key);

// Beyond what magnitude a number does not round to one of a type, and up to what it
// rounds to zero.
struct RoundingLimits {
  float beyond = 0, least = 0;
};
// Of bf16, f16, E4M3 or E5M2, of numbers that are kept divided by `scale`, a power of
// two.
RoundingLimits rounding_limits(DType type, float scale = 1.0f);

// Adds to counts_2 [2] f64 how many x lie beyond the limits (infinities too, NaN not),
// and how many that are not zero round to it. x_N f32, dense. With scales_S, [S] f32, of
// x divided by the scale of its block of the tensor; `run` is not looked at without.
void count_rounding_losses(Stream& stream, const TensorView& x_N,
                           const RoundingLimits& limits, const TensorRun& run,
                           const TensorView& scales_S, const TensorView& counts_2);

// x = x * x, in place; f32, dense.
void square(Stream& stream, const TensorView& x);

// x = the larger of sqrt(x) and `least`, in place; zeros, NaN and what is below zero
// (NaN) are sqrt(x). f32, dense.
void square_root(Stream& stream, const TensorView& x, float least);

}  // namespace trireme::kernels
