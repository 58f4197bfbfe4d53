// Tiles of attention for tensor cores: rows of K 16-bit elements in shared memory, moved
// there asynchronously, and the fragments that a warp multiplies.
// A fragment of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"), with lane =
// 4 g + t: sums d hold rows g, g, g + 8, g + 8 at columns 2t, 2t + 1, 2t, 2t + 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_machine/mma.cuh"
#include "cuda_machine/shared.cuh"
#include "kernels/cuda/attention_operands.cuh"

namespace trireme::kernels::cuda::fragments {

inline constexpr int warps = 4;
inline constexpr int threads = 32 * warps;
inline constexpr int rows = 16;  // of a fragment, and of a step along the summed dim

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / 32; }

// Where pack `c` (8 elements, 16 bytes) of row `r` lies. Packs change places within a row
// so that the same pack of 8 neighbouring rows lies in 8 different groups of banks.
template <int K>
__device__ inline int pack_at(int r, int c) {
  const int turn = K % 64 == 0 ? r % 8 : r / 2 % 4;
  return r * K + 8 * (c ^ turn);
}

// Starts to copy rows of a head to a tile of Count rows; rows from `valid` on are zero.
template <int K, int Count, class T>
__device__ inline void load_rows(const T* from, std::int64_t stride, int valid, T* to) {
  constexpr int packs = K / 8;
  static_assert(Count * packs % threads == 0);
#pragma unroll
  for (int i = 0; i < Count * packs / threads; ++i) {
    const int pack = i * threads + static_cast<int>(threadIdx.x);
    const int r = pack / packs, c = pack % packs;
    T* const place = to + pack_at<K>(r, c);
    if (r < valid) {
      cp_async_16(place, from + r * stride + 8 * c);
    } else {
      *reinterpret_cast<uint4*>(place) = uint4{0, 0, 0, 0};
    }
  }
}

// Rows [row, row + 16), elements [16 step, 16 step + 16) as the left operand.
template <int K, class T>
__device__ inline void load_left(const T* tile, int row, int step,
                                 std::uint32_t (&a)[4]) {
  const int lane = lane_index();
  ldmatrix_x4(a, tile + pack_at<K>(row + lane % 16, 2 * step + lane / 16));
}

// The same rows and elements as the right operand of left row^T: columns [row, row + 8)
// are b[0], b[1], the next 8 are b[2], b[3].
template <int K, class T>
__device__ inline void load_right(const T* tile, int row, int step,
                                  std::uint32_t (&b)[4]) {
  const int lane = lane_index();
  ldmatrix_x4(b, tile + pack_at<K>(row + lane % 8 + lane / 16 * 8,
                                   2 * step + lane / 8 % 2));
}

// Rows [row, row + 16), the summed dim, and columns [16 pair, 16 pair + 16) as the right
// operand: the first 8 columns are b[0], b[1].
template <int K, class T>
__device__ inline void load_right_rows(const T* tile, int row, int pair,
                                       std::uint32_t (&b)[4]) {
  const int lane = lane_index();
  ldmatrix_x4_trans(b, tile + pack_at<K>(row + lane % 16, 2 * pair + lane / 16));
}

// Two numbers rounded to T, the first in the lower half.
template <class T>
__device__ inline std::uint32_t pack_pair(float x, float y) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

// d += a b, for two neighbouring column tiles.
template <class T>
__device__ inline void multiply_pair(const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[4], float (&d0)[4],
                                     float (&d1)[4]) {
  mma_m16n8k16<T>(d0, a, {b[0], b[1]});
  mma_m16n8k16<T>(d1, a, {b[2], b[3]});
}

// scores[m][n] = the products of rows [row + 16 m, + 16) of `left` with rows of `right`,
// 8 n on.
template <int K, int M, int N, class T>
__device__ inline void multiply_rows(const T* left, int row, const T* right,
                                     float (&scores)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
#pragma unroll
  for (int step = 0; step < K / rows; ++step) {
    std::uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) load_left<K>(left, row + rows * m, step, a[m]);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      std::uint32_t b[4];
      load_right<K>(right, 8 * n, step, b);
#pragma unroll
      for (int m = 0; m < M; ++m)
        multiply_pair<T>(a[m], b, scores[m][n], scores[m][n + 1]);
    }
  }
}

// sums[m][c] += weights[m] (rounded to T) times the rows of `right`.
template <int K, int M, int N, class T>
__device__ inline void add_weighted(const float (&weights)[M][N][4], const T* right,
                                    float (&sums)[M][K / 8][4]) {
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    std::uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const float(&even)[4] = weights[m][n], (&odd)[4] = weights[m][n + 1];
      a[m][0] = pack_pair<T>(even[0], even[1]);
      a[m][1] = pack_pair<T>(even[2], even[3]);
      a[m][2] = pack_pair<T>(odd[0], odd[1]);
      a[m][3] = pack_pair<T>(odd[2], odd[3]);
    }
#pragma unroll
    for (int c = 0; c < K / 8; c += 2) {
      std::uint32_t b[4];
      load_right_rows<K>(right, 8 * n, c / 2, b);
#pragma unroll
      for (int m = 0; m < M; ++m)
        multiply_pair<T>(a[m], b, sums[m][c], sums[m][c + 1]);
    }
  }
}

// Over the 4 lanes that share rows of a fragment.
__device__ inline float quad_max(float x) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}
__device__ inline float quad_sum(float x) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2)
    x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}

// Calls f.operator()<K>() for a width that tensor cores do.
template <class F>
void with_width(int width, const F& f) {
  switch (width) {
    case 32: return f.template operator()<32>();
    case 64: return f.template operator()<64>();
    case 96: return f.template operator()<96>();
    case 128: return f.template operator()<128>();
    default: fail(Status::internal, "no tensor-core attention of width {}", width);
  }
}

}  // namespace trireme::kernels::cuda::fragments
