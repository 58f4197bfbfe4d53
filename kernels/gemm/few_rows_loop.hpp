// The loop of products of a few rows, and the order of its sums.
// SPDX-License-Identifier: Apache-2.0
// Products from numbers and from codes share it: they have the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/gemm/ahead.hpp"
#include "kernels/gemm/few_rows.hpp"
#include "kernels/gemm/pairs.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::few_rows {

using Floats = simd::Vector<float>;

// Two registers of consecutive operands as f32. Those of bf16 come as those with even
// and those with odd places, which is a shift and a mask; A and B are read alike.
struct TwoRegisters {
  Floats first, second;
};
constexpr std::int64_t step = 2 * simd::lanes<float>;

[[gnu::always_inline]] inline TwoRegisters load_two(const float* from) {
  return {simd::load_vector(from), simd::load_vector(from + simd::lanes<float>)};
}
[[gnu::always_inline]] inline TwoRegisters load_two(const BFloat16* from) {
  typedef std::uint32_t Words __attribute__((vector_size(simd::register_bytes)));
  Words words;
  std::memcpy(&words, from, sizeof words);
  return {std::bit_cast<Floats>(words << 16), std::bit_cast<Floats>(words & 0xffff0000u)};
}

[[gnu::always_inline]] inline void add_product(Floats (&sums)[2], TwoRegisters a,
                                               TwoRegisters b) {
  sums[0] = simd::multiply_add<float>(a.first, b.first, sums[0]);
  sums[1] = simd::multiply_add<float>(a.second, b.second, sums[1]);
}

// The sum of two registers of sums, and of the products of `count` elements more.
template <class T>
[[gnu::always_inline]] inline float sum_of(TwoRegisters partial, const T* a, const T* b,
                                           std::int64_t count) {
  float sum = simd::sum_lanes<float>(partial.first + partial.second);
  for (std::int64_t i = 0; i < count; ++i) sum += load(a[i]) * load(b[i]);
  return sum;
}

template <class T>
struct Rows {
  const T* a;
  const T* b;
  std::int64_t a_stride, b_stride, k;

  // sums[row][column] of `columns` rows of B from `column` on.
  template <int rows, int columns>
  void dot(std::int64_t column, float (&sums)[most_few_rows][4]) const {
    Floats partial[rows][columns][2] = {};
    const std::int64_t whole = k / step * step;
    const T* from = b + column * b_stride;
    for (std::int64_t i = 0; i < whole; i += step) {
      TwoRegisters right[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) {
        // What the next columns read is on its way meanwhile: of several rows of B the
        // processor does not see where they go.
        if constexpr (columns > 1)
          __builtin_prefetch(from + (j + 2 * columns) * b_stride + i);
        else
          fetch_ahead(from + i, step * static_cast<std::int64_t>(sizeof(T)));
        right[j] = load_two(from + j * b_stride + i);
      }
#pragma GCC unroll 4
      for (int row = 0; row < rows; ++row) {
        const TwoRegisters left = load_two(a + row * a_stride + i);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) {
          add_product(partial[row][j], left, right[j]);
        }
      }
    }
    for (int row = 0; row < rows; ++row)
      for (int j = 0; j < columns; ++j)
        sums[row][j] =
            sum_of(TwoRegisters{partial[row][j][0], partial[row][j][1]},
                   a + row * a_stride + whole, from + j * b_stride + whole, k - whole);
  }

  template <int rows, class F>
  void run(std::int64_t begin, std::int64_t end, const F& finish) const {
#if defined(TRIREME_PAIRS)
    // Not of several rows, whose sums, with those of several rows of B, do not fit into
    // registers: A would be read too often.
    if constexpr (rows == 1 && std::is_same_v<T, BFloat16>) {
      for (std::int64_t column = begin; column < end; ++column)
        finish(0, column, Pairs::dot(a, b + column * b_stride, k));
      return;
    }
#endif
    float sums[most_few_rows][4];
    std::int64_t column = begin;
    // B is read from end to end where A, which is read anew for each column, stays in the
    // first cache beside it. The sums are the same.
    constexpr std::int64_t most_of_a = 1 << 14;  // bytes
    const bool one_by_one = rows * k * static_cast<std::int64_t>(sizeof(T)) <= most_of_a;
    for (; !one_by_one && column + 4 <= end; column += 4) {
      dot<rows, 4>(column, sums);
      for (int j = 0; j < 4; ++j)
        for (int row = 0; row < rows; ++row) finish(row, column + j, sums[row][j]);
    }
    for (; column < end; ++column) {
      dot<rows, 1>(column, sums);
      for (int row = 0; row < rows; ++row) finish(row, column, sums[row][0]);
    }
  }
};

// f.operator()<rows>() with the number of rows as a constant.
template <class F>
void with_rows(std::int64_t rows, const F& f) {
  switch (rows) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    default: return f.template operator()<4>();
  }
}

}  // namespace trireme::kernels::few_rows
