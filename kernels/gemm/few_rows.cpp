// Dot products of a few rows of A with every row of B, at the memory's rate.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/few_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

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

template <class T>
struct FewRows {
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
        // What the next columns read is on its way meanwhile: rows of B are too short for
        // the processor to see where this goes.
        __builtin_prefetch(from + (j + 2 * columns) * b_stride + i);
        right[j] = load_two(from + j * b_stride + i);
      }
#pragma GCC unroll 4
      for (int row = 0; row < rows; ++row) {
        const TwoRegisters left = load_two(a + row * a_stride + i);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) {
          partial[row][j][0] += left.first * right[j].first;
          partial[row][j][1] += left.second * right[j].second;
        }
      }
    }
    for (int row = 0; row < rows; ++row)
      for (int j = 0; j < columns; ++j) {
        float sum = simd::sum_lanes<float>(partial[row][j][0] + partial[row][j][1]);
        for (std::int64_t i = whole; i < k; ++i)
          sum += load(a[row * a_stride + i]) * load(from[j * b_stride + i]);
        sums[row][j] = sum;
      }
  }

  template <int rows, class Finish>
  void run(std::int64_t begin, std::int64_t end, const Finish& finish) const {
    float sums[most_few_rows][4];
    std::int64_t column = begin;
    for (; column + 4 <= end; column += 4) {
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

template <class T, class C>
void multiply(const TensorView& c, const TensorView& a, const TensorView& b_NK,
              Accumulate accumulate, const TensorView& bias) {
  constexpr std::int64_t elements = 1 << 16;  // of B, worth a thread's work
  const FewRows<T> product{a.data<T>(), b_NK.data<T>(), a.stride(0), b_NK.stride(0),
                           a.dim(1)};
  const T* added = bias.empty() ? nullptr : bias.data<T>();
  C* const out = c.data<C>();
  const auto finish = [&](std::int64_t row, std::int64_t column, float sum) {
    C& to = out[row * c.stride(0) + column];
    if (added != nullptr) sum += load(added[column]);
    if (accumulate == Accumulate::yes) sum += load(to);
    to = store<C>(sum);
  };
  for_ranges("gemm.few_rows", b_NK.dim(0),
             std::max<std::int64_t>(1, elements / product.k), threads(),
             [&](std::int64_t begin, std::int64_t end) {
               switch (a.dim(0)) {
                 case 1: return product.template run<1>(begin, end, finish);
                 case 2: return product.template run<2>(begin, end, finish);
                 case 3: return product.template run<3>(begin, end, finish);
                 default: return product.template run<4>(begin, end, finish);
               }
             });
}

}  // namespace

void gemm_few_rows(const TensorView& c, const TensorView& a, const TensorView& b_NK,
                   Accumulate accumulate, const TensorView& bias) {
  const bool f32 = c.dtype() == DType::f32;
  if (a.dtype() == DType::f32)
    return multiply<float, float>(c, a, b_NK, accumulate, bias);
  if (f32) return multiply<BFloat16, float>(c, a, b_NK, accumulate, bias);
  multiply<BFloat16, BFloat16>(c, a, b_NK, accumulate, bias);
}

}  // namespace trireme::kernels
