// Dot products of rows of A with rows of B, in tiles that fill the registers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/row_products.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "base/split.hpp"
#include "kernels/gemm/finish.hpp"
#include "kernels/gemm/workspace.hpp"
#include "kernels/host/code_numbers.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

// How `step` elements of two rows are read, multiplied and added to a register of sums.
template <class T>
struct Terms {
  using A = Accumulator<T>;
  using Loaded = simd::Vector<A>;
  static constexpr std::int64_t step = simd::lanes<A>;
  [[gnu::always_inline]] static Loaded read(const T* from) {
    if constexpr (std::is_same_v<T, Float16>) {
      Loaded all;
#pragma GCC unroll 16
      for (int i = 0; i < simd::lanes<A>; ++i) all[i] = load(from[i]);
      return all;
    } else {
      return simd::load_vector(from);
    }
  }
  [[gnu::always_inline]] static Loaded add(Loaded sums, Loaded a, Loaded b) {
    return sums + a * b;
  }
};

#ifdef __AVX512BF16__
template <>
struct Terms<BFloat16> {
  using Loaded = __m512i;
  static constexpr std::int64_t step = 32;
  [[gnu::always_inline]] static Loaded read(const BFloat16* from) {
    return _mm512_loadu_si512(from);
  }
  [[gnu::always_inline]] static simd::Vector<float> add(simd::Vector<float> sums,
                                                        Loaded a, Loaded b) {
    return std::bit_cast<simd::Vector<float>>(
        _mm512_dpbf16_ps(std::bit_cast<__m512>(sums), std::bit_cast<__m512bh>(a),
                         std::bit_cast<__m512bh>(b)));
  }
};
#else
// Even and odd places apart: a shift and a mask make each of them f32.
template <>
struct Terms<BFloat16> {
  struct Loaded {
    simd::Vector<float> even, odd;
  };
  static constexpr std::int64_t step = 2 * simd::lanes<float>;
  [[gnu::always_inline]] static Loaded read(const BFloat16* from) {
    typedef std::uint32_t Words __attribute__((vector_size(simd::register_bytes)));
    Words words;
    std::memcpy(&words, from, sizeof words);
    return {std::bit_cast<simd::Vector<float>>(words << 16),
            std::bit_cast<simd::Vector<float>>(words & 0xffff0000u)};
  }
  [[gnu::always_inline]] static simd::Vector<float> add(simd::Vector<float> sums,
                                                        Loaded a, Loaded b) {
    return sums + a.even * b.even + a.odd * b.odd;
  }
};
#endif

constexpr int tile_rows = simd::registers == 32 ? 4 : 2, tile_columns = 4;
// Columns whose part of B stays in the second cache while the rows pass.
constexpr std::int64_t block_columns = 32;

template <class T>
struct RowProduct {
  using A = Accumulator<T>;
  const T* a;
  const T* b;
  std::int64_t a_stride, b_stride, k;

  // sums[i] of `count` registers = the sum over the lanes of each, in ascending order.
  static void sum_registers(simd::Vector<A>* registers, int count, A* sums) {
    constexpr int lanes = simd::lanes<A>;
    for (int first = 0; first < count; first += lanes) {
      simd::Vector<A> tile[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        tile[i] = first + i < count ? registers[first + i] : simd::Vector<A>{};
      simd::exchange_all<A>(tile);
      simd::Vector<A> all = tile[0];
#pragma GCC unroll 16
      for (int i = 1; i < lanes; ++i) all += tile[i];
      for (int i = 0; i < lanes && first + i < count; ++i) sums[first + i] = all[i];
    }
  }

  template <int rows, int columns>
  [[gnu::noinline]] void dot(std::int64_t row, std::int64_t column, A* sums) const {
    simd::Vector<A> partial[rows * columns];
#pragma GCC unroll 16
    for (int i = 0; i < rows * columns; ++i) partial[i] = simd::Vector<A>{};
    const std::int64_t whole = k / Terms<T>::step * Terms<T>::step;
    const T* left = a + row * a_stride;
    const T* right = b + column * b_stride;
    for (std::int64_t i = 0; i < whole; i += Terms<T>::step) {
      typename Terms<T>::Loaded y[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) y[j] = Terms<T>::read(right + j * b_stride + i);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const auto x = Terms<T>::read(left + r * a_stride + i);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
          partial[r * columns + j] = Terms<T>::add(partial[r * columns + j], x, y[j]);
      }
    }
    sum_registers(partial, rows * columns, sums);
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < columns; ++j)
        for (std::int64_t i = whole; i < k; ++i)
          sums[r * columns + j] +=
              load(left[r * a_stride + i]) * load(right[j * b_stride + i]);
  }

  template <int rows, class Finish>
  void run_row(std::int64_t row, std::int64_t begin, std::int64_t end,
               const Finish& finish) const {
    A sums[tile_rows * tile_columns];
    std::int64_t column = begin;
    for (; column + tile_columns <= end; column += tile_columns) {
      dot<rows, tile_columns>(row, column, sums);
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < tile_columns; ++j)
          finish(row + r, column + j, sums[r * tile_columns + j]);
    }
    for (; column < end; ++column) {
      dot<rows, 1>(row, column, sums);
      for (int r = 0; r < rows; ++r) finish(row + r, column, sums[r]);
    }
  }

  template <class Finish>
  void run(std::int64_t m, std::int64_t begin, std::int64_t end,
           const Finish& finish) const {
    for (std::int64_t at = begin; at < end; at += block_columns) {
      const std::int64_t stop = std::min(at + block_columns, end);
      std::int64_t row = 0;
      for (; row + tile_rows <= m; row += tile_rows)
        run_row<tile_rows>(row, at, stop, finish);
      for (; row < m; ++row) run_row<1>(row, at, stop, finish);
    }
  }
};

template <class T>
void transpose_rows(const TensorView& b_KN, T* to) {
  const std::int64_t K = b_KN.dim(0), N = b_KN.dim(1), stride = b_KN.stride(0);
  const T* from = b_KN.data<T>();
  for_ranges("gemm.transpose", N, std::max<std::int64_t>(1, (1 << 15) / K), threads(),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t k = 0; k < K; ++k)
                 for (std::int64_t n = begin; n < end; ++n)
                   to[n * K + k] = from[k * stride + n];
             });
}

// Columns that are worth a thread.
std::int64_t grain(std::int64_t M, std::int64_t K) {
  constexpr std::int64_t worth = 1 << 18;  // products of elements
  return std::max<std::int64_t>(4, worth / (K * M));
}

template <class T, class C>
void multiply(const TensorView& c, const TensorView& a, const TensorView& b,
              Transpose transpose_b, Accumulate accumulate, const TensorView& bias) {
  const std::int64_t M = a.dim(0), K = a.dim(1), N = c.dim(1);
  const T* right = b.data<T>();
  std::int64_t right_stride = b.stride(0);
  if (transpose_b == Transpose::no) {
    auto* turned = static_cast<T*>(
        workspace(WorkspaceUse::right, static_cast<std::size_t>(N * K) * sizeof(T)));
    transpose_rows<T>(b, turned);
    right = turned;
    right_stride = K;
  }
  const RowProduct<T> product{a.data<T>(), right, a.stride(0), right_stride, K};
  const Finish<T, C> finish(c, accumulate, bias);
  for_ranges(
      "gemm.rows", N, grain(M, K), threads(),
      [&](std::int64_t begin, std::int64_t end) { product.run(M, begin, end, finish); });
}

// The same with a block of rows of codes at a time as numbers in a cache.
template <class T, class C>
void multiply_codes(const TensorView& c, const TensorView& a, const CodedMatrix& b,
                    const TensorView& bias) {
  const std::int64_t M = a.dim(0), K = a.dim(1), N = c.dim(1);
  const float* const numbers = numbers_of(b);
  const Finish<T, C> finish(c, Accumulate::no, bias);
  const std::int64_t parts = std::clamp<std::int64_t>(N / grain(M, K), 1, 4 * threads());
  auto* const room = static_cast<T*>(
      workspace(WorkspaceUse::right,
                static_cast<std::size_t>(parts * block_columns * K) * sizeof(T)));
  run_chunks("gemm.rows of codes", parts, ChunkBody([&](std::int64_t part) {
               const Range mine = split_range(N, parts, part);
               T* const block = room + part * block_columns * K;
               const RowProduct<T> product{a.data<T>(), block, a.stride(0), K, K};
               for (std::int64_t at = mine.begin; at < mine.end; at += block_columns) {
                 const std::int64_t count = std::min(block_columns, mine.end - at);
                 for (std::int64_t i = 0; i < count; ++i)
                   host::decode_part(b, numbers, at + i, 0, K, block + i * K);
                 product.run(M, 0, count,
                             [&](std::int64_t row, std::int64_t column,
                                 Accumulator<T> sum) { finish(row, at + column, sum); });
               }
             }));
}

}  // namespace

void gemm_by_rows(const TensorView& c, const TensorView& a, const TensorView& b,
                  Transpose transpose_b, Accumulate accumulate, const TensorView& bias) {
  visit_floating(a.dtype(), [&](auto element) {
    using T = decltype(element);
    if (c.dtype() == dtype_of<Accumulator<T>>)
      multiply<T, Accumulator<T>>(c, a, b, transpose_b, accumulate, bias);
    else
      multiply<T, T>(c, a, b, transpose_b, accumulate, bias);
  });
}

void gemm_by_rows(const TensorView& c, const TensorView& a, const CodedMatrix& b_NK,
                  const TensorView& bias) {
  visit_floating(a.dtype(), [&](auto element) {
    using T = decltype(element);
    if (c.dtype() == dtype_of<Accumulator<T>>)
      multiply_codes<T, Accumulator<T>>(c, a, b_NK, bias);
    else
      multiply_codes<T, T>(c, a, b_NK, bias);
  });
}

}  // namespace trireme::kernels
