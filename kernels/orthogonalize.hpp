// The orthogonal factor of a matrix, by Newton and Schulz: what Muon makes of a momentum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/memory.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Memory for matrices of at most `elements` elements, whose shorter sides are at most
// `side`. Products are made of numbers of `type` (f64, f32, bf16, f16); sums are f64 for
// f64 and f32 else.
class OrthogonalizeMemory {
 public:
  OrthogonalizeMemory() = default;
  OrthogonalizeMemory(Device device, DType type, std::int64_t elements,
                      std::int64_t side);
  std::size_t bytes() const;

 private:
  friend void orthogonalize(Stream& stream, const TensorView& x_RC, int steps,
                            const OrthogonalizeMemory& memory);
  Buffer x_, product_;             // [elements], of the type and of sums
  Buffer square_, polynomial_;     // [side, side] of the type
  Buffer fourth_, scaled_square_;  // [side, side] of sums
};

// x = about U V^T, where x = U S V^T: the singular values of x / |x| are brought near to
// 1 by `steps` of an odd polynomial, p(s) = a s + b s^3 + c s^5 with (a, b, c) = (3.4445,
// -4.775, 2.0315), which leaves them between 0.7 and 1.2 after five.
//
// x_RC  dense [R, C], f64 for memory of f64, f32 else; written. Zeros give zeros
//
// Cost per step: 4 R C m + 2 m^3 FLOPs, m = min(R, C). Waits for the stream.
// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
void orthogonalize(Stream& stream, const TensorView& x_RC, int steps,
                   const OrthogonalizeMemory& memory);

}  // namespace trireme::kernels
