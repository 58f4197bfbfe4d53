// One tile of a matrix product on tensor cores: C [M, N] = A [M, K] B [K, N].
// SPDX-License-Identifier: Apache-2.0
// A block of 8 warps makes 128 x 128 results; operands of 16 bits are brought by
// cp.async some steps ahead.
#pragma once

#include <cuda_machine/mma.cuh>

#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda::tile {

inline constexpr int side = 128;  // rows and columns of results
inline constexpr int depth = 32;  // of K in a step
inline constexpr int stages = 4;  // steps in shared memory
inline constexpr int threads = 256;
inline constexpr int warps_down = 2, warps_across = 4;
inline constexpr int rows_16 = side / warps_down / 16;     // pieces of 16 rows of a warp
inline constexpr int columns_8 = side / warps_across / 8;  // pieces of 8 columns

// How an operand lies in memory and in shared memory: rows along its M or N with K
// contiguous, or a row for each k. Rows are padded so that the 8 of an ldmatrix fall into
// different banks.
template <bool by_k>
struct Layout {
  static constexpr int rows = by_k ? depth : side;
  static constexpr int columns = by_k ? side : depth;
  static constexpr int stride = columns + 8;
  static constexpr int elements = rows * stride;
};

// An operand from the tile's first row or column on: `outer` of M or N and `inner` of K
// are left. Both that is contiguous and `stride` are multiples of 8 elements.
template <class T>
struct Operand {
  const T* data;
  std::int64_t stride, outer, inner;
};

// Begins to copy step `step` of the operand; beyond its ends there are zeros.
template <bool by_k, class T>
__device__ inline void load(const Operand<T>& from, std::int64_t step, T* to) {
  using In = Layout<by_k>;
  constexpr int chunks = In::columns / 8;
  const std::int64_t first = step * depth, left = from.inner - first;
  const T* const start = from.data + (by_k ? first * from.stride : first);
  const std::int64_t rows = by_k ? left : from.outer, columns = by_k ? from.outer : left;
  for (int i = static_cast<int>(threadIdx.x); i < In::rows * chunks; i += threads) {
    const int r = i / chunks, c = i % chunks * 8;
    const bool inside = r < rows && c < columns;
    cp_async_16(to + r * In::stride + c, inside ? start + r * from.stride + c : from.data,
                inside);
  }
}

// The fragment of A of rows m.. and columns k.. of a step.
template <bool by_k, class T>
__device__ inline void load_a(std::uint32_t* a, const T* step, int m, int k) {
  constexpr int stride = Layout<by_k>::stride;
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  const int right = matrix % 2 * 8, below = matrix / 2 * 8, row = lane % 8;
  if constexpr (by_k) {
    ldmatrix_x4_trans(a, step + (k + below + row) * stride + m + right);
  } else {
    ldmatrix_x4(a, step + (m + right + row) * stride + k + below);
  }
}

// Two fragments of B: of columns n.. and n + 8.. and of rows k...
template <bool by_k, class T>
__device__ inline void load_b(std::uint32_t* b, const T* step, int n, int k) {
  constexpr int stride = Layout<by_k>::stride;
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  const int deeper = matrix % 2 * 8, next = matrix / 2 * 8, row = lane % 8;
  if constexpr (by_k) {
    ldmatrix_x4_trans(b, step + (k + deeper + row) * stride + n + next);
  } else {
    ldmatrix_x4(b, step + (n + next + row) * stride + k + deeper);
  }
}

// Shared memory of the block, in elements of 16 bits.
template <bool a_by_k, bool b_by_k>
inline constexpr int shared_elements = stages*(Layout<a_by_k>::elements +
                                               Layout<b_by_k>::elements);

using Sums = float[rows_16][columns_8][4];

// sums (written) of this thread: [i][j] is the fragment D (mma.cuh) at row 64 (warp / 4)
// + 16 i and column 32 (warp % 4) + 8 j. All threads of the block call it.
template <bool a_by_k, bool b_by_k, class T>
__device__ inline void multiply(const Operand<T>& a, const Operand<T>& b, T* shared,
                                Sums& sums) {
  const auto a_at = [&](std::int64_t step) {
    return shared + step % stages * Layout<a_by_k>::elements;
  };
  const auto b_at = [&](std::int64_t step) {
    return shared + stages * Layout<a_by_k>::elements +
           step % stages * Layout<b_by_k>::elements;
  };
  const std::int64_t steps = (a.inner + depth - 1) / depth;
  const auto fetch = [&](std::int64_t step) {
    if (step < steps) {
      load<a_by_k>(a, step, a_at(step));
      load<b_by_k>(b, step, b_at(step));
    }
    cp_async_commit();  // also of nothing: waits count groups
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int m = warp / warps_across * 16 * rows_16,
            n = warp % warps_across * 8 * columns_8;
#pragma unroll
  for (int i = 0; i < rows_16; ++i)
#pragma unroll
    for (int j = 0; j < columns_8; ++j)
#pragma unroll
      for (int d = 0; d < 4; ++d) sums[i][j][d] = 0;
  __syncthreads();  // another tile may still be read
  for (int step = 0; step + 1 < stages; ++step) fetch(step);
  for (std::int64_t step = 0; step < steps; ++step) {
    cp_async_wait<stages - 2>();
    __syncthreads();  // this step is there, and the one before has been read
    fetch(step + stages - 1);
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
      std::uint32_t of_a[rows_16][4], of_b[columns_8][2];
#pragma unroll
      for (int i = 0; i < rows_16; ++i)
        load_a<a_by_k>(of_a[i], a_at(step), m + 16 * i, k);
#pragma unroll
      for (int j = 0; j < columns_8; j += 2)
        load_b<b_by_k>(of_b[j], b_at(step), n + 8 * j, k);
#pragma unroll
      for (int i = 0; i < rows_16; ++i)
#pragma unroll
        for (int j = 0; j < columns_8; ++j) mma_m16n8k16<T>(sums[i][j], of_a[i], of_b[j]);
    }
  }
  cp_async_wait<0>();
}

// c = sums (+ c) where rows and columns are left of the matrix. c is the tile's first
// element; its rows start at multiples of 16 bytes.
template <bool accumulates, class C>
__device__ inline void store(const Sums& sums, C* c, std::int64_t stride,
                             std::int64_t rows, std::int64_t columns) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int m = warp / warps_across * 16 * rows_16 + lane / 4;
  const int n = warp % warps_across * 8 * columns_8 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < rows_16; ++i)
#pragma unroll
    for (int j = 0; j < columns_8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m + 16 * i + 8 * half, column = n + 8 * j;
        if (row >= rows || column >= columns) continue;
        C* const to = c + row * stride + column;
        float left = sums[i][j][2 * half], right = sums[i][j][2 * half + 1];
        if constexpr (accumulates) {
          const auto before = load_group<2>(to);
          left += widen(before.x[0]);
          right += widen(before.x[1]);
        }
        store_group(to, Group<C, 2>{{narrow<C>(left), narrow<C>(right)}});
      }
}

}  // namespace trireme::kernels::cuda::tile
