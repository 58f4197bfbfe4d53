// The tiles of attention backward in one pass: sizes, dq's sums, and ds as an operand.
// SPDX-License-Identifier: Apache-2.0
// Legend: K head width, Q queries of a tile.
#pragma once

#include <cuda_machine/turns.cuh>

#include "kernels/cuda/attention/fragments.cuh"

namespace trireme::kernels::cuda::one_pass {

using namespace fragments;

inline constexpr int block_warps = 8, block_threads = 32 * block_warps;
inline constexpr int tile_keys = block_warps * rows;  // a fragment of 16 rows a warp
inline constexpr int stages =
    2;  // tiles of queries in shared memory: one in use, one to come

// Queries of a tile: what registers allow without spills.
constexpr int tile_queries(std::int64_t) { return 64; }

// The warps' parts of a tile of dq: Cuts cuts of its rows, and columns for the rest.
template <int K>
struct QueryPart {
  static constexpr int Q = tile_queries(K);
  static constexpr int row_cuts = K == 128 ? 2 : 4;
  static constexpr int column_cuts = block_warps / row_cuts;
  static constexpr int M = Q / row_cuts / rows, C = K / column_cuts / 8;
  static_assert(M * row_cuts * rows == Q && C * column_cuts * 8 == K && C % 2 == 0);

  __device__ static int row() { return warp_index() % row_cuts * M * rows; }
  __device__ static int column() { return warp_index() / row_cuts * C * 8; }
};

// dq's sums as warps hold them, and whose turn it is to add to a tile.
struct PartialSums {
  float* sums;        // [B * H * tiles][M C][threads][4]
  unsigned* counter;  // [B * H * tiles]: of blocks that have added to the tile
  unsigned* ticket;   // of blocks that have started
  int tiles;          // of queries of a head

  __device__ std::int64_t tile_of(const Geometry& part, int b, int h, int at,
                                  int Q) const {
    return (std::int64_t{b} * part.heads + h) * tiles + at / Q;
  }
};

template <int M, int C>
__device__ inline void load_sums(const float* sums, float (&dq)[M][C][4]) {
  const float* from = sums + 4 * thread_index();
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int c = 0; c < C; ++c)
      load_fresh(from + (m * C + c) * 4 * block_threads, dq[m][c]);
}
template <int M, int C>
__device__ inline void store_sums(float* sums, const float (&dq)[M][C][4]) {
  float* const to = sums + 4 * thread_index();
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int c = 0; c < C; ++c)
      store_pack(to + (m * C + c) * 4 * block_threads,
                 Pack<float>{{dq[m][c][0], dq[m][c][1], dq[m][c][2], dq[m][c][3]}});
}

// A warp's fragment of 16 keys by Q queries, rounded: half of the registers of its sums,
// which is why it is made at once.
template <int Q>
struct Operand {
  std::uint32_t words[Q / 16][1][4];

  template <class T>
  __device__ static Operand of(const float (&sums)[1][Q / 8][4]) {
    Operand operand;
#pragma unroll
    for (int n = 0; n < Q / 16; ++n)
      pack_left<T>(sums[0][2 * n], sums[0][2 * n + 1], operand.words[n][0]);
    return recomputed(operand);
  }
  // To the warp's rows of a tile [tile_keys][Q] in shared memory.
  template <class T>
  __device__ void put(T* tile) const {
    const int lane = lane_index();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = warp_index() * rows + lane / 4 + 8 * i;
#pragma unroll
      for (int n = 0; n < Q / 8; ++n) {
        T* const to = tile + row * Q + Lane<Q>::place(swizzle<Q>(row), n) + lane % 4 * 2;
        *reinterpret_cast<std::uint32_t*>(to) = words[n / 2][0][n % 2 * 2 + i];
      }
    }
  }
  // sums += this times the Q rows of `right`.
  template <int K, class T>
  __device__ void multiply(const T* right, float (&sums)[1][K / 8][4]) const {
    const Lane<K> lane;
#pragma unroll
    for (int n = 0; n < Q / 16; ++n) add_product(lane, words[n], right, rows * n, sums);
  }
};

// dq += ds k, for the first 16 * `steps` keys of the tile.
template <int K, int M, int C, class T>
__device__ inline void add_queries(const T* of_ds, const T* of_k, int steps,
                                   float (&dq)[M][C][4]) {
  constexpr int Q = tile_queries(K);
  const Lane<Q> left;
  const Lane<K> right;
  const int first_row = QueryPart<K>::row() / rows;
  const int first_column = QueryPart<K>::column() / 16;
#pragma unroll
  for (int step = 0; step < block_warps; ++step) {
    if (step >= steps) break;
    std::uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
      left.load_left_rows(of_ds, rows * step, first_row + m, a[m]);
#pragma unroll
    for (int c = 0; c < C; c += 2) {
      std::uint32_t b[4];
      right.load_right_rows(of_k, rows * step, first_column + c / 2, b);
#pragma unroll
      for (int m = 0; m < M; ++m) multiply_pair<T>(a[m], b, dq[m][c], dq[m][c + 1]);
    }
  }
}

}  // namespace trireme::kernels::cuda::one_pass
