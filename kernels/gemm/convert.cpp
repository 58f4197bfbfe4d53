// Conversion of matrices to and from f32, in vectors and by all threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/convert.hpp"

#include <algorithm>

#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

// Calls f(row) for every row, in parallel.
template <class F>
void for_rows(const char* label, const Matrix& matrix, const F& f) {
  constexpr std::int64_t elements = 16384;  // worth the start of a thread's work
  const std::int64_t grain =
      std::max<std::int64_t>(1, elements / std::max<std::int64_t>(matrix.columns, 1));
  for_ranges(label, matrix.rows, grain, threads(), [&](auto begin, auto end) {
    for (auto row = begin; row < end; ++row) f(row);
  });
}

}  // namespace

Matrix part(const TensorView& t, std::int64_t row, std::int64_t column, std::int64_t rows,
            std::int64_t columns) {
  const auto offset = static_cast<std::size_t>(row * t.stride(0) + column);
  return {static_cast<char*>(t.raw()) + offset * size_of(t.dtype()), t.dtype(), rows,
          columns, t.stride(0)};
}

void convert_to_f32(const Matrix& from, float* out) {
  visit_floating(from.dtype, [&](auto element) {
    using T = decltype(element);
    for_rows("gemm.convert", from, [&](std::int64_t row) {
      const T* __restrict in = static_cast<const T*>(from.data) + row * from.stride;
      float* __restrict to = out + row * from.columns;
#pragma omp simd
      for (std::int64_t j = 0; j < from.columns; ++j) to[j] = static_cast<float>(in[j]);
    });
  });
}

void round_from_f32(const float* from, const Matrix& to) {
  visit_floating(to.dtype, [&](auto element) {
    using T = decltype(element);
    for_rows("gemm.round", to, [&](std::int64_t row) {
      const float* __restrict in = from + row * to.columns;
      T* __restrict out = static_cast<T*>(to.data) + row * to.stride;
#pragma omp simd
      for (std::int64_t j = 0; j < to.columns; ++j) out[j] = static_cast<T>(in[j]);
    });
  });
}

void fill_rows(const float* row_N, const Matrix& to) {
  for_rows("gemm.bias", to, [&](std::int64_t row) {
    std::copy_n(row_N, to.columns, static_cast<float*>(to.data) + row * to.stride);
  });
}

}  // namespace trireme::kernels
