// One tile of a matrix product: C [M, N] = A [M, K] B [K, N], by tensor cores or without.
// SPDX-License-Identifier: Apache-2.0
// Operands are brought to shared memory some steps ahead. Whatever the shape of the tile,
// an element of C is the sum of its products in the order of k, by one instruction of the
// tensor cores for 16 of them (types of 16 bits) or by one fused multiplication each: its
// bits depend on its row, its column and K alone.
#pragma once

#include <cmath>
#include <cuda_machine/mma.cuh>

#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda::tile {

// Rows and columns of results, bytes along K in a step, steps in shared memory, and how
// warps share rows and columns.
template <int Rows, int Columns, int StepBytes, int Stages, int Down, int Across>
struct Shape {
  static constexpr int rows = Rows, columns = Columns, stages = Stages;
  static constexpr int warps_across = Across;
  static constexpr int threads = 32 * Down * Across;
  static constexpr int rows_16 = Rows / Down / 16;        // pieces of 16 rows of a warp
  static constexpr int columns_8 = Columns / Across / 8;  // pieces of 8 columns
  static_assert(columns_8 % 2 == 0);                      // fragments are loaded by pairs
  template <class T>
  static constexpr int depth = StepBytes / static_cast<int>(sizeof(T));
};
using Large = Shape<128, 128, 64, 4, 2, 4>;

// How an operand lies in memory and in shared memory: rows along its M or N with K
// contiguous, or a row for each k. Rows are padded so that the 8 of an ldmatrix fall into
// different banks.
template <class T, int Outer, int Depth, bool by_k>
struct Layout {
  static constexpr int rows = by_k ? Depth : Outer;
  static constexpr int columns = by_k ? Outer : Depth;
  static constexpr int stride = columns + pack_elements<T>;
  static constexpr int elements = rows * stride;
};
template <class S, class T, bool by_k>
using LeftLayout = Layout<T, S::rows, S::template depth<T>, by_k>;
template <class S, class T, bool by_k>
using RightLayout = Layout<T, S::columns, S::template depth<T>, by_k>;

// An operand from the tile's first row or column on: `outer` of M or N and `inner` of K
// are left. packed: both that is contiguous and `stride` are multiples of 16 bytes.
template <class T>
struct Operand {
  const T* data;
  std::int64_t stride, outer, inner;
};

// Begins to copy the elements of a step, from k = first on; beyond the operand's ends
// there are zeros.
template <class In, bool by_k, bool packed, int threads, class T>
__device__ inline void load(const Operand<T>& from, std::int64_t first, T* to) {
  constexpr int width = packed ? pack_elements<T> : 1, chunks = In::columns / width;
  const std::int64_t left = from.inner - first;
  const T* const start = from.data + (by_k ? first * from.stride : first);
  const std::int64_t rows = by_k ? left : from.outer, columns = by_k ? from.outer : left;
  for (int i = static_cast<int>(threadIdx.x); i < In::rows * chunks; i += threads) {
    const int r = i / chunks, c = i % chunks * width;
    const bool inside = r < rows && c < columns;
    const T* const at = inside ? start + r * from.stride + c : from.data;
    if constexpr (packed) {
      cp_async_16(to + r * In::stride + c, at, inside);
    } else {
      to[r * In::stride + c] = inside ? *at : narrow<T>(Wide<T>(0));
    }
  }
}

// The fragment of A of rows m.. and columns k.. of a step.
template <bool by_k, int stride, class T>
__device__ inline void load_a(std::uint32_t* a, const T* step, int m, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  const int right = matrix % 2 * 8, below = matrix / 2 * 8, row = lane % 8;
  if constexpr (by_k) {
    ldmatrix_x4_trans(a, step + (k + below + row) * stride + m + right);
  } else {
    ldmatrix_x4(a, step + (m + right + row) * stride + k + below);
  }
}

// Two fragments of B: of columns n.. and n + 8.. and of rows k...
template <bool by_k, int stride, class T>
__device__ inline void load_b(std::uint32_t* b, const T* step, int n, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  const int deeper = matrix % 2 * 8, next = matrix / 2 * 8, row = lane % 8;
  if constexpr (by_k) {
    ldmatrix_x4_trans(b, step + (k + deeper + row) * stride + n + next);
  } else {
    ldmatrix_x4(b, step + (n + next + row) * stride + k + deeper);
  }
}

// Shared memory of the block, in elements.
template <class S, class T, bool a_by_k, bool b_by_k>
inline constexpr int shared_elements = S::stages*(LeftLayout<S, T, a_by_k>::elements +
                                                  RightLayout<S, T, b_by_k>::elements);

// [i][j] is the fragment D (mma.cuh) at row 16 i and column 8 j of a warp's part.
template <class S, class T>
using Sums = Wide<T>[S::rows_16][S::columns_8][4];

// Where the part of the thread's warp begins.
template <class S>
__device__ inline int warp_row() {
  return static_cast<int>(threadIdx.x) / 32 / S::warps_across * 16 * S::rows_16;
}
template <class S>
__device__ inline int warp_column() {
  return static_cast<int>(threadIdx.x) / 32 % S::warps_across * 8 * S::columns_8;
}

// Adds the products of a step.
template <class S, bool a_by_k, bool b_by_k, class T>
__device__ inline void add_step(const T* of_a, const T* of_b, Sums<S, T>& sums) {
  constexpr int depth = S::template depth<T>;
  constexpr int a_stride = LeftLayout<S, T, a_by_k>::stride,
                b_stride = RightLayout<S, T, b_by_k>::stride;
  const int m = warp_row<S>(), n = warp_column<S>();
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
      std::uint32_t a[S::rows_16][4], b[S::columns_8][2];
#pragma unroll
      for (int i = 0; i < S::rows_16; ++i)
        load_a<a_by_k, a_stride>(a[i], of_a, m + 16 * i, k);
#pragma unroll
      for (int j = 0; j < S::columns_8; j += 2)
        load_b<b_by_k, b_stride>(b[j], of_b, n + 8 * j, k);
#pragma unroll
      for (int i = 0; i < S::rows_16; ++i)
#pragma unroll
        for (int j = 0; j < S::columns_8; ++j) mma_m16n8k16<T>(sums[i][j], a[i], b[j]);
    }
  } else {
    static_assert(!a_by_k);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    of_a += (m + lane / 4) * a_stride;
    of_b += (n + lane % 4 * 2) * (b_by_k ? 1 : b_stride);
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
      T a[S::rows_16][2], b[S::columns_8][2];
#pragma unroll
      for (int i = 0; i < S::rows_16; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          a[i][half] = of_a[(16 * i + 8 * half) * a_stride + k];
#pragma unroll
      for (int j = 0; j < S::columns_8; ++j)
#pragma unroll
        for (int next = 0; next < 2; ++next)
          b[j][next] = b_by_k ? of_b[k * b_stride + 8 * j + next]
                              : of_b[(8 * j + next) * b_stride + k];
#pragma unroll
      for (int i = 0; i < S::rows_16; ++i)
#pragma unroll
        for (int j = 0; j < S::columns_8; ++j)
#pragma unroll
          for (int d = 0; d < 4; ++d)
            sums[i][j][d] = std::fma(a[i][d / 2], b[j][d % 2], sums[i][j][d]);
    }
  }
}

// sums (written) of this thread. All threads of the block call it.
template <class S, bool a_by_k, bool b_by_k, bool packed, class T>
__device__ inline void multiply(const Operand<T>& a, const Operand<T>& b, T* shared,
                                Sums<S, T>& sums) {
  using Left = LeftLayout<S, T, a_by_k>;
  using Right = RightLayout<S, T, b_by_k>;
  constexpr int depth = S::template depth<T>, stages = S::stages;
  const auto a_at = [&](std::int64_t step) {
    return shared + step % stages * Left::elements;
  };
  const auto b_at = [&](std::int64_t step) {
    return shared + stages * Left::elements + step % stages * Right::elements;
  };
  const std::int64_t steps = (a.inner + depth - 1) / depth;
  const auto fetch = [&](std::int64_t step) {
    if (step < steps) {
      load<Left, a_by_k, packed, S::threads>(a, step * depth, a_at(step));
      load<Right, b_by_k, packed, S::threads>(b, step * depth, b_at(step));
    }
    if constexpr (packed) cp_async_commit();  // also of nothing: waits count groups
  };
#pragma unroll
  for (int i = 0; i < S::rows_16; ++i)
#pragma unroll
    for (int j = 0; j < S::columns_8; ++j)
#pragma unroll
      for (int d = 0; d < 4; ++d) sums[i][j][d] = 0;
  __syncthreads();  // another tile may still be read
  for (int step = 0; step + 1 < stages; ++step) fetch(step);
  for (std::int64_t step = 0; step < steps; ++step) {
    if constexpr (packed) cp_async_wait<stages - 2>();
    __syncthreads();  // this step is there, and the one before has been read
    fetch(step + stages - 1);
    add_step<S, a_by_k, b_by_k>(a_at(step), b_at(step), sums);
  }
  if constexpr (packed) cp_async_wait<0>();
}

// f(row, column, sum, next) for the pairs of neighbouring sums of this thread that lie in
// the `rows` and `columns` that are left of the matrix; of an odd number of columns the
// last `next` counts for nothing.
template <class S, class T, class F>
__device__ inline void for_pairs(const Sums<S, T>& sums, std::int64_t rows,
                                 std::int64_t columns, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int m = warp_row<S>() + lane / 4, n = warp_column<S>() + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < S::rows_16; ++i)
#pragma unroll
    for (int j = 0; j < S::columns_8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m + 16 * i + 8 * half, column = n + 8 * j;
        if (row < rows && column < columns)
          f(row, column, sums[i][j][2 * half], sums[i][j][2 * half + 1]);
      }
}

// c = sums (+ c) where rows and columns are left of the matrix. c is the tile's first
// element; its rows start at multiples of 16 bytes and have an even number of columns.
template <bool accumulates, class S, class T, class C>
__device__ inline void store(const Sums<S, T>& sums, C* c, std::int64_t stride,
                             std::int64_t rows, std::int64_t columns) {
  for_pairs<S, T>(sums, rows, columns, [&](int row, int column, float left, float right) {
    C* const to = c + row * stride + column;
    if constexpr (accumulates) {
      const auto before = load_group<2>(to);
      left += widen(before.x[0]);
      right += widen(before.x[1]);
    }
    store_group(to, Group<C, 2>{{narrow<C>(left), narrow<C>(right)}});
  });
}

}  // namespace trireme::kernels::cuda::tile
