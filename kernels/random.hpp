// Random initial values that belong to the logical element, not to the rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Element (i, j) of the box x becomes deviation * normal(seed, stream, index) where index
// is the row-major index of element begin + (i, j) in the tensor of shape `whole`. x is
// dense, of rank 1 or 2, f64 or f32; every mesh and every device draws the same value for
// the same element, to the bit.
void fill_normal(Stream& stream, const TensorView& x, const Shape& whole,
                 const Shape& begin, std::uint64_t seed, std::uint64_t tensor,
                 double deviation);

}  // namespace trireme::kernels
