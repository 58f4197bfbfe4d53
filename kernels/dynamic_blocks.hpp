// Tensors in the dynamic type of 8 bits with a largest magnitude for each 256 elements.
// SPDX-License-Identifier: Apache-2.0
// A rank has any run of elements. Blocks are those of the whole tensor, row by row across
// the ends of rows, so that codes do not depend on who holds what: those that
// encode_dynamic() makes of the whole tensor, but for blocks with a number that is not
// finite.
#pragma once

#include "base/code_book.hpp"
#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/block_codes.hpp"
#include "kernels/tensor_run.hpp"

namespace trireme::kernels {

// Which blocks of a tensor are at hand.
struct DynamicBlocks {
  std::int64_t first = 0;     // the first one
  std::int64_t elements = 0;  // of the whole tensor, whose last block may be shorter

  constexpr bool whole(std::int64_t block) const {
    return (block + 1) * dynamic_block <= elements;
  }
};

// absmax_B, f32, of the blocks: the larger of what is there and the largest |x| of the
// run in it; a NaN counts as infinity, which survives a maximum over ranks. x_N f32.
void absmax_of_run(Stream& stream, const TensorView& x_N, const TensorRun& run,
                   DynamicBlocks blocks, const TensorView& absmax_B);

// codes_N, u8, = the nearest to x / absmax of the block; the middle of two numbers goes
// to the lower one. x_N f32; absmax_B as above.
void encode_run(Stream& stream, const TensorView& x_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& codes_N);

// y_N = number of the code * absmax of the block, f32: not finite where absmax is not.
void decode_run(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& y_N);

}  // namespace trireme::kernels
