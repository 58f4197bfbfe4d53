// Tiles of attention in plain arithmetic, for every type and head width.
// SPDX-License-Identifier: Apache-2.0
// A block of 16 x 16 threads holds a tile of 16 R rows by 64 columns of scores, R x 4 a
// thread. Rows are read in chunks of columns, so that shared memory does not limit K.
#pragma once

#include <cmath>
#include <limits>

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

// One operand of a tile: `rows` rows that begin at `data`. Others have the same members.
template <class T>
struct Operand {
  const T* data;
  std::int64_t stride;
  int rows;

  // Element c of row r, which is below `rows`.
  __device__ Wide<T> element(int r, int c) const { return widen(data[r * stride + c]); }
};

// Columns [first, first + columns) of an operand's rows; zeros beyond its ends.
template <int Rows, int Columns, class Source, class W>
__device__ inline void load(const Source& from, int first, int columns, W* to) {
  for (int i = static_cast<int>(threadIdx.x); i < Rows * Columns; i += threads) {
    const int r = i / Columns, c = i % Columns;
    const bool inside = r < from.rows && c < columns;
    to[r * (Columns + 1) + c] = inside ? from.element(r, first + c) : W(0);
  }
}

// The products of rows of a with rows of b, of thread (x, y): rows y + 16 r of a with
// rows x + 16 c of b; 0 beyond the ends.
template <int R, class A, class B, class W>
__device__ inline void multiply(const A& a, const B& b, int width, W* buffer,
                                W (&product)[R][per_thread]) {
  const int x = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  W* const of_a = buffer;
  W* const of_b = buffer + R * side * (chunk + 1);
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < per_thread; ++c) product[r][c] = 0;
  for (int begin = 0; begin < width; begin += chunk) {
    const int columns = width - begin < chunk ? width - begin : chunk;
    __syncthreads();  // the last chunk may still be read
    load<R * side, chunk>(a, begin, columns, of_a);
    load<tile, chunk>(b, begin, columns, of_b);
    __syncthreads();
    for (int i = 0; i < columns; ++i) {
      W left[R], right[per_thread];
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
template <int R, class Source, class W>
__device__ inline void accumulate(const W* p, const Source& m, int width,
                                  const W (&factor)[R], W* buffer, W* sums) {
  const int x = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  for (int begin = 0; begin < width; begin += tile) {
    __syncthreads();
    load<tile, tile>(m, begin, width - begin, buffer);
    __syncthreads();
    W product[R][per_thread] = {};
    for (int j = 0; j < m.rows; ++j) {
      W right[per_thread];
#pragma unroll
      for (int c = 0; c < per_thread; ++c) right[c] = buffer[j * row + x + side * c];
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const W left = p[(y + side * r) * row + j];
#pragma unroll
        for (int c = 0; c < per_thread; ++c) product[r][c] += left * right[c];
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < per_thread; ++c) {
        const int column = begin + x + side * c;
        if (column >= width) continue;
        W& sum = sums[(y + side * r) * width + column];
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

// What the softmax of the rows y + 16 r of a tile has come to, and which keys [begin,
// end) they see.
template <class W, int R>
struct SoftmaxRows {
  W most[R], sum[R];  // the sum over this thread's keys alone
  int begin[R], end[R];

  // Scores become probabilities against the maximum so far; `shrink` is what earlier sums
  // are worth against the new one. Nothing is visible below a maximum of minus infinity.
  template <bool More>
  __device__ void update(W factor, W cap, int first_key, int x, W (&s)[R][per_thread],
                         W (&shrink)[R]) {
    constexpr W never = -std::numeric_limits<W>::infinity();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      W largest = most[r];
#pragma unroll
      for (int c = 0; c < per_thread; ++c) {
        const int key = first_key + x + side * c;
        s[r][c] =
            key >= begin[r] && key < end[r] ? capped<More>(factor * s[r][c], cap) : never;
        largest = s[r][c] > largest ? s[r][c] : largest;
      }
      largest = row_max(largest);
      const W from = largest == never ? W(0) : largest;
      shrink[r] = power_of_2(most[r] - from);
      most[r] = largest;
      sum[r] *= shrink[r];
#pragma unroll
      for (int c = 0; c < per_thread; ++c) sum[r] += s[r][c] = power_of_2(s[r][c] - from);
    }
  }
};

}  // namespace trireme::kernels::cuda::tiles
