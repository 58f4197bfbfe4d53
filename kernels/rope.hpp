// Rotary position embedding in Hugging Face's half-split order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/direction.hpp"
#include "base/tensor_view.hpp"
#include "kernels/math/rope.hpp"

namespace trireme::kernels {

// Rotates, in place, each of the `heads` heads of width K (even) in the rows of x:
// with angle a = position / theta^(2 j / K), j in [0, K/2):
//   x[j], x[j + K/2] = x[j] cos a - x[j + K/2] sin a,  x[j + K/2] cos a + x[j] sin a.
// Direction::backward rotates by -a, which is the adjoint and the inverse.
//
// x            [T, heads * K], compute dtype, rows may be strided (the q and k columns of
//              a fused buffer may be rotated in one call: heads = H + G)
// positions_T  i32, the global position of each row
// cos_sin      [P, K] f32, or f64 when x is f64: table from rope_table, P > every
//              position
// Throws on the host for a position outside the table. On a GPU that would mean to wait
// for it: rows with such a position become NaN. Source: Su et al., "RoFormer", 2021,
// eq. 34.
void rope(Stream& stream, const TensorView& x, std::int64_t heads,
          const TensorView& positions_T, const TensorView& cos_sin_PK,
          Direction direction);

using math::RopeScaling;
using math::RopeScalingKind;

// Fills cos_sin_PK (f32 or f64): row p holds cos of the K/2 angles, then sin, both times
// the scaling's attention factor. Angles are computed in double.
void rope_table(Stream& stream, double theta, const TensorView& cos_sin_PK,
                const RopeScaling& scaling = {});

}  // namespace trireme::kernels
