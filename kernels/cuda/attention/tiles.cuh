// Tiles of attention in plain arithmetic, for every type and head width.
// SPDX-License-Identifier: Apache-2.0
// A block of 16 x 16 threads holds a tile of 16 R rows by 64 columns of scores, R x 4 a
// thread. Rows are read in chunks of columns, so that shared memory does not limit K.
#pragma once

#include "kernels/cuda/attention/operands.cuh"

namespace trireme::kernels::cuda::tiles {

inline constexpr int side = 16;
inline constexpr int threads = side * side;
inline constexpr int tile = 64;  // columns of a tile of scores
inline constexpr int per_thread = tile / side;
inline constexpr int chunk = 32;      // columns of operands per step of a product
inline constexpr int row = tile + 1;  // elements from a row to the next in shared memory

// Elements of shared memory: of chunks of operands, and of one tile of scores.
constexpr std::int64_t buffer_elements(int rows) {
  const int scores = (rows + tile) * (chunk + 1), product = tile * row;
  return scores > product ? scores : product;
}
constexpr std::int64_t tile_elements(int rows) { return std::int64_t{rows} * row; }

template <int Rows, int Columns, class T>
__device__ inline void load(const T* from, std::int64_t stride, int rows, int columns,
                            Wide<T>* to) {
  for (int i = static_cast<int>(threadIdx.x); i < Rows * Columns; i += threads) {
    const int r = i / Columns, c = i % Columns;
    const bool inside = r < rows && c < columns;
    to[r * (Columns + 1) + c] = inside ? widen(from[r * stride + c]) : Wide<T>(0);
  }
}

// One operand of a tile: `rows` rows that begin at `data`.
template <class T>
struct Operand {
  const T* data;
  std::int64_t stride;
  int rows;
};

// The products of rows of a with rows of b, of thread (x, y): rows y + 16 r of a with
// rows x + 16 c of b; 0 beyond the ends.
template <int R, class T>
__device__ inline void multiply(const Operand<T>& a, const Operand<T>& b, int width,
                                Wide<T>* buffer, Wide<T> (&product)[R][per_thread]) {
  const int x = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  Wide<T>* const of_a = buffer;
  Wide<T>* const of_b = buffer + R * side * (chunk + 1);
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < per_thread; ++c) product[r][c] = 0;
  for (int begin = 0; begin < width; begin += chunk) {
    const int columns = width - begin < chunk ? width - begin : chunk;
    __syncthreads();  // the last chunk may still be read
    load<R * side, chunk>(a.data + begin, a.stride, a.rows, columns, of_a);
    load<tile, chunk>(b.data + begin, b.stride, b.rows, columns, of_b);
    __syncthreads();
    for (int i = 0; i < columns; ++i) {
      Wide<T> left[R], right[per_thread];
#pragma unroll
      for (int r = 0; r < R; ++r) left[r] = of_a[(y + side * r) * (chunk + 1) + i];
#pragma unroll
      for (int c = 0; c < per_thread; ++c)
        right[c] = of_b[(x + side * c) * (chunk + 1) + i];
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int c = 0; c < per_thread; ++c) product[r][c] += left[r] * right[c];
    }
  }
}

// sums = factor sums + p m, with a tile p [16 R][64] in shared memory, rows m of global
// memory and sums [16 R][width] in shared memory, of which each thread touches its own.
// All threads have written p; it may be overwritten after the next barrier.
template <int R, class T>
__device__ inline void accumulate(const Wide<T>* p, const Operand<T>& m, int width,
                                  const Wide<T> (&factor)[R], Wide<T>* buffer,
                                  Wide<T>* sums) {
  const int x = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  for (int begin = 0; begin < width; begin += tile) {
    __syncthreads();
    load<tile, tile>(m.data + begin, m.stride, m.rows, width - begin, buffer);
    __syncthreads();
    Wide<T> product[R][per_thread] = {};
    for (int j = 0; j < m.rows; ++j) {
      Wide<T> right[per_thread];
#pragma unroll
      for (int c = 0; c < per_thread; ++c) right[c] = buffer[j * row + x + side * c];
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const Wide<T> left = p[(y + side * r) * row + j];
#pragma unroll
        for (int c = 0; c < per_thread; ++c) product[r][c] += left * right[c];
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < per_thread; ++c) {
        const int column = begin + x + side * c;
        if (column >= width) continue;
        Wide<T>& sum = sums[(y + side * r) * width + column];
        sum = factor[r] * sum + product[r][c];
      }
  }
}

// Puts this thread's share of a tile of scores into shared memory.
template <int R, class W>
__device__ inline void store(const W (&from)[R][per_thread], W* p) {
  const int x = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < per_thread; ++c)
      p[(y + side * r) * row + x + side * c] = from[r][c];
}

// Over the 16 threads that share rows.
template <class W>
__device__ inline W row_max(W x) {
#pragma unroll
  for (int distance = side / 2; distance > 0; distance /= 2) {
    const W other = __shfl_xor_sync(0xffffffffu, x, distance);
    x = other > x ? other : x;
  }
  return x;
}
template <class W>
__device__ inline W row_sum(W x) {
#pragma unroll
  for (int distance = side / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}

__device__ inline float power_of_2(float x) { return exp2f(x); }
__device__ inline double power_of_2(double x) { return exp2(x); }

// A score in units of log 2, capped or as it is. More: kernels of attention with a cap or
// with dropout, which other attention has no registers to spare for.
template <bool More, class W>
__device__ inline W capped(W score, W cap) {
  if constexpr (More)
    if (cap > 0) return cap * std::tanh(score / cap);
  return score;
}

}  // namespace trireme::kernels::cuda::tiles
