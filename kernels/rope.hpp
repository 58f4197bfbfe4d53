// Rotary position embedding, in Hugging Face's half-split order or of neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/device.hpp"
#include "base/direction.hpp"
#include "base/tensor_view.hpp"
#include "kernels/math/rope.hpp"

namespace trireme::kernels {

// Which numbers of a row turn: of each of its heads the numbers [first, first + R), where
// R is the width of the table; the others stay.
struct RotaryHeads {
  std::int64_t heads = 0;
  std::int64_t first = 0;
  // Pair j is the numbers (2 j, 2 j + 1) of those that turn; else (j, j + R / 2).
  bool neighbours = false;
};

// Rotates, in place, R numbers (an even count) of each head in the rows of x: with
// angle a = position / theta^(2 j / R), j in [0, R / 2):
//   x[j], x[j + R/2] = x[j] cos a - x[j + R/2] sin a,  x[j + R/2] cos a + x[j] sin a.
// Direction::backward rotates by -a, which is the adjoint and the inverse.
//
// x            [T, heads * K], compute dtype, K >= heads.first + R; rows may be strided
//              (the q and k columns of a fused buffer may be rotated in one call: heads =
//              H + G)
// positions_T  i32, the global position of each row
// cos_sin      [P, R] f32, or f64 when x is f64: table from rope_table, P > every
//              position
// Throws on the host for a position outside the table. On a GPU that would mean to wait
// for it: rows with such a position become NaN. Source: Su et al., "RoFormer", 2021,
// eq. 34.
void rope(Stream& stream, const TensorView& x, const RotaryHeads& heads,
          const TensorView& positions_T, const TensorView& cos_sin_PR,
          Direction direction);

using math::RopeScaling;
using math::RopeScalingKind;

// Fills cos_sin_PR (f32 or f64): row p holds cos of the R/2 angles, then sin, both times
// the scaling's attention factor. Angles are computed in double. length: positions of the
// texts that are read, which dynamic and longrope ask for. Throws Error(internal) where
// longrope has not a divisor for each pair.
void rope_table(Stream& stream, double theta, const TensorView& cos_sin_PR,
                const RopeScaling& scaling = {}, std::int64_t length = 0);

// The same where each position is the last of its text: row p is that of a text of p + 1
// positions.
void rope_table_of_ends(Stream& stream, double theta, const TensorView& cos_sin_PR,
                        const RopeScaling& scaling);

// The same of any frequencies, one for each pair. The first row is of position `first`.
void rope_angles(Stream& stream, std::span<const double> frequencies, double factor,
                 const TensorView& cos_sin_PR, std::int64_t first = 0);

}  // namespace trireme::kernels
