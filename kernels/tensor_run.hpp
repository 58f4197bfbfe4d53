// TensorRun: where a run of elements of a rank's memory lies in a tensor of the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/split.hpp"
#include "kernels/fp8.hpp"

namespace trireme::kernels {

// Consecutive elements of a box of a matrix; a vector is a matrix of one column.
struct TensorRun {
  std::int64_t first = 0;            // of the run, in the box, row by row
  std::int64_t width = 1;            // of the box
  std::int64_t row = 0, column = 0;  // of the box's first element in the tensor
  std::int64_t whole_width = 1;      // of the tensor

  constexpr std::int64_t row_of(std::int64_t i) const {
    return row + (first + i) / width;
  }
  constexpr std::int64_t column_of(std::int64_t i) const {
    return column + (first + i) % width;
  }
  // Row-major, of element i of the run in the tensor.
  constexpr std::int64_t index(std::int64_t i) const {
    return row_of(i) * whole_width + column_of(i);
  }
  // Of the 128 x 128 block that holds element i, row-major.
  constexpr std::int64_t block(std::int64_t i) const {
    return row_of(i) / fp8_block * blocks_across() + column_of(i) / fp8_block;
  }
  constexpr std::int64_t blocks_across() const {
    return divide_up(whole_width, fp8_block);
  }
  // Elements of the run from i on that lie side by side in one row of one block.
  constexpr std::int64_t together(std::int64_t i) const {
    const std::int64_t in_block = fp8_block - column_of(i) % fp8_block;
    return in_row(i) < in_block ? in_row(i) : in_block;
  }
  // Elements of the run from i on to the end of the box's row.
  constexpr std::int64_t in_row(std::int64_t i) const {
    return width - (first + i) % width;
  }
};

}  // namespace trireme::kernels
