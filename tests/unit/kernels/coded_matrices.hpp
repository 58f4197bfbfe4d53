// Matrices of codes for tests of the kernels that read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "base/coded_matrix.hpp"

namespace trireme::test {

// Numbers between -1 and 1, mostly small. As in tests/reference/make_block_codes.py.
class SomeNumbers {
 public:
  explicit SomeNumbers(std::uint32_t state) : state_(state) {}
  std::uint32_t bits() { return state_ = state_ * 1664525u + 1013904223u; }
  float next() {
    const float x =
        static_cast<float>(static_cast<std::int32_t>(bits() >> 8) - (1 << 23)) /
        static_cast<float>(1 << 23);
    const float square = x * x;
    return square * x;
  }

 private:
  std::uint32_t state_;
};

// E2M1.
inline constexpr CodeBook mxfp4_book = {{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F,
                                         -6.0F}};

// A matrix of random codes with scales, and zero points if they are wanted.
inline OwnedCodes coded_matrix(CodeType type, const Shape& shape,
                               const ScaleLayout& layout, bool zeros) {
  OwnedCodes out(Device::host(), type, shape, layout, zeros);
  SomeNumbers codes(7), some(3);
  for (std::uint8_t& code : out.codes.view().span<std::uint8_t>()) {
    code = static_cast<std::uint8_t>(codes.bits() >> 24);
    if (type == CodeType::e4m3 && (code & 0x7fu) == 0x7fu) code = 0;
  }
  for (float& scale : out.scales.view().span<float>()) scale = some.next();
  if (zeros)
    for (float& zero : out.zeros.view().span<float>()) zero = std::round(8 * some.next());
  out.matrix.book = nf4_book;
  return out;
}

// The layout of a box of K columns that begins there in a grid of scales.
inline ScaleLayout grid_of_scales(std::int64_t rows, std::int64_t columns, std::int64_t K,
                                  std::int64_t first_row, std::int64_t first_column) {
  ScaleLayout layout{rows, columns};
  layout.first_row = first_row;
  layout.first_column = first_column;
  layout.grid_columns = (first_column + K - 1) / columns + 1;
  return layout;
}

}  // namespace trireme::test
