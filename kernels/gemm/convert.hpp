// Conversion of matrices to and from f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::kernels {

// A row-major matrix of bf16, f16 or f32, rows `stride` elements apart.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, stride = 0;
};

// The part of `t` with `rows` x `columns` elements at (row, column).
Matrix part(const TensorView& t, std::int64_t row, std::int64_t column, std::int64_t rows,
            std::int64_t columns);

// out [from.rows, from.columns], dense, = from.
void convert_to_f32(const Matrix& from, float* out);

// to = from [to.rows, to.columns], dense, rounded.
void round_from_f32(const float* from, const Matrix& to);

// Every row of the f32 matrix `to` = row_N, in f32.
void fill_rows(const float* row_N, const Matrix& to);

}  // namespace trireme::kernels
