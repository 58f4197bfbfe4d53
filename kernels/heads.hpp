// Columns of the heads of a row, moved and summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// The columns from `first` on of each of the `heads` heads that share out the columns of
// x_TE.
struct HeadColumns {
  TensorView x_TE;
  std::int64_t heads = 1, first = 0;
};

// `width` columns of each head of `to` (written) are those of the same head of `from`; a
// `from` of one head goes to every head. One type; rows may be strided.
void copy_heads(Stream& stream, const HeadColumns& from, const HeadColumns& to,
                std::int64_t width);

// `width` columns of the one head of `to` (written) are the sum over the heads of `from`,
// in their order, in the accumulator and rounded once: the adjoint of copy_heads().
void sum_heads(Stream& stream, const HeadColumns& from, const HeadColumns& to,
               std::int64_t width);

}  // namespace trireme::kernels
