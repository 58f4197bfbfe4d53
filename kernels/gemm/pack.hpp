// Copies of GEMM operands in the order that the inner kernel reads, converted to f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// Columns of one panel of a packed right operand.
inline constexpr std::int64_t panel_columns = 64;

// A right operand [k_padded, N] as panels of 64 columns: panel p holds rows 0 .. k_padded
// - 1 of columns 64 p .. 64 p + 63, one after the other. This is oneDNN's BA16a64b.
constexpr std::int64_t packed_rows(std::int64_t k) { return (k + 15) / 16 * 16; }
constexpr std::int64_t packed_elements(std::int64_t k, std::int64_t n) {
  return packed_rows(k) * ((n + panel_columns - 1) / panel_columns * panel_columns);
}

// Rows and columns of a matrix to be read through a leading dimension.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, stride = 0;
};

// packed = op(b) in panels, where op(b) is [K, N]; padding is zero.
void pack_panels(const Matrix& b, Transpose transpose, float* packed);

// out [b.columns, b.rows], rows `out_stride` apart, = the transpose of b.
void transpose_to_f32(const Matrix& b, float* out, std::int64_t out_stride);

// out [b.rows, b.columns], rows `out_stride` apart, = b.
void convert_to_f32(const Matrix& b, float* out, std::int64_t out_stride);

// out, of `dtype` (bf16 or f16), rows `out_stride` apart, = b [rows, columns] rounded.
void round_from_f32(const Matrix& b, void* out, DType dtype, std::int64_t out_stride);

}  // namespace trireme::kernels
