// Tiles of attention for tensor cores: rows in shared memory, and fragments of a warp.
// SPDX-License-Identifier: Apache-2.0
// Rows of K 16-bit elements are moved to shared memory asynchronously.
// A fragment of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"), with lane =
// 4 g + t: sums d hold rows g, g, g + 8, g + 8 at columns 2t, 2t + 1, 2t, 2t + 1.
#pragma once

#include <cuda_machine/mma.cuh>
#include <cuda_machine/registers.cuh>
#include <cuda_machine/shared.cuh>
#include <limits>

#include "kernels/cuda/attention/operands.cuh"
#include "kernels/cuda/common/reduce.cuh"

namespace trireme::kernels::cuda::fragments {

inline constexpr int warps = 4;
inline constexpr int threads = 32 * warps;
inline constexpr int rows = 16;  // of a fragment, and of a step along the summed dim

// A thread's index is at hand; what is made of it shall not take a register that sums
// need.
__device__ inline int thread_index() { return recomputed(static_cast<int>(threadIdx.x)); }
__device__ inline int lane_index() { return thread_index() % 32; }
__device__ inline int warp_index() { return thread_index() / 32; }

// Packs (8 elements, 16 bytes) change places within a row so that the same pack of 8
// neighbouring rows lies in 8 different groups of banks: pack c of row r lies at place
// c ^ swizzle(r).
template <int K>
__device__ inline int swizzle(int r) {
  return K % 64 == 0 ? r % 8 : r / 2 % 4;
}
// Starts to copy rows of a head to a tile of Count rows; rows from `valid` on are zero.
// A thread copies the same pack of every Step-th row, whose swizzle() is the same. The
// loop stays a loop: its addresses would take the registers that sums need.
template <int K, int Count, int Threads = threads, class T>
__device__ inline void load_rows(const T* from, std::int64_t stride, int valid, T* to) {
  constexpr int packs = K / 8, Step = Threads / packs / 8 * 8;
  static_assert(Step > 0 && Count % Step == 0);
  const int thread = thread_index();
  const int first = thread / packs, pack = thread % packs;
  if (first >= Step) return;
  from += first * stride + 8 * pack;
  to += first * K + 8 * (pack ^ swizzle<K>(first));
#pragma unroll 1
  for (int r = first; r < Count; r += Step) {
    cp_async_16(to, from, r < valid);
    from += Step * stride;
    to += Step * K;
  }
}

// Where a lane reads its row of the 8 x 8 matrices of fragments. Tiles of fragments begin
// at rows that are multiples of 16, where swizzle() begins anew.
template <int K>
struct Lane {
  int left_row, left_pack, right_row, right_pack;

  // Where pack own ^ pack lies, in elements: own < turns, so that higher bits of `pack`
  // are a constant to add, and few different places need a register.
  static constexpr int turns = K % 64 == 0 ? 8 : 4;
  __device__ static int place(int own, int pack) {
    return 8 * (own ^ pack % turns) + 8 * (pack / turns * turns);
  }

  __device__ Lane() {
    const int lane = lane_index();
    const int left = lane % 16, right = lane % 8 + lane / 16 * 8;
    left_row = left * K;
    left_pack = lane / 16 ^ swizzle<K>(left);
    right_row = right * K;
    right_pack = lane / 8 % 2 ^ swizzle<K>(right);
  }

  // Rows [row, row + 16), elements [16 step, 16 step + 16) as the left operand.
  template <class T>
  __device__ void load_left(const T* tile, int row, int step,
                            std::uint32_t (&a)[4]) const {
    ldmatrix_x4(a, tile + row * K + left_row + place(left_pack, 2 * step));
  }
  // The same rows and elements as the right operand of left row^T: columns [row, row + 8)
  // are b[0], b[1], the next 8 are b[2], b[3].
  template <class T>
  __device__ void load_right(const T* tile, int row, int step,
                             std::uint32_t (&b)[4]) const {
    ldmatrix_x4(b, tile + row * K + right_row + place(right_pack, 2 * step));
  }
  // Rows [row, row + 16), the summed dim, and columns [16 pair, 16 pair + 16) as the
  // right operand: the first 8 columns are b[0], b[1].
  template <class T>
  __device__ void load_right_rows(const T* tile, int row, int pair,
                                  std::uint32_t (&b)[4]) const {
    ldmatrix_x4_trans(b, tile + row * K + left_row + place(left_pack, 2 * pair));
  }
  // The same as the left operand: of its 16 rows, which are columns of the tile.
  template <class T>
  __device__ void load_left_rows(const T* tile, int row, int pair,
                                 std::uint32_t (&a)[4]) const {
    ldmatrix_x4_trans(a, tile + row * K + right_row + place(right_pack, 2 * pair));
  }
};

// Two numbers rounded to T, the first in the lower half.
template <class T>
__device__ inline std::uint32_t pack_pair(float x, float y) {
  const T pair[2] = {narrow<T>(x), narrow<T>(y)};
  std::uint32_t bits = 0;
  memcpy(&bits, pair, sizeof(bits));
  return bits;
}

// d += a b, for two neighbouring column tiles.
template <class T>
__device__ inline void multiply_pair(const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[4], float (&d0)[4],
                                     float (&d1)[4]) {
  mma_m16n8k16<T>(d0, a, b);
  mma_m16n8k16<T>(d1, a, b + 2);
}

// scores[m][n] = the products of rows [row + 16 m, + 16) of `left` with rows of `right`,
// 8 n on.
template <int K, int M, int N, class T>
__device__ inline void multiply_rows(const T* left, int row, const T* right,
                                     float (&scores)[M][N][4]) {
  const Lane<K> lane;
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
    for (int m = 0; m < M; ++m) lane.load_left(left, row + rows * m, step, a[m]);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      std::uint32_t b[4];
      lane.load_right(right, 8 * n, step, b);
#pragma unroll
      for (int m = 0; m < M; ++m)
        multiply_pair<T>(a[m], b, scores[m][n], scores[m][n + 1]);
    }
  }
}

// Sums of two neighbouring column tiles, rounded to T, as a left operand.
template <class T>
__device__ inline void pack_left(const float (&even)[4], const float (&odd)[4],
                                 std::uint32_t (&a)[4]) {
  a[0] = pack_pair<T>(even[0], even[1]);
  a[1] = pack_pair<T>(even[2], even[3]);
  a[2] = pack_pair<T>(odd[0], odd[1]);
  a[3] = pack_pair<T>(odd[2], odd[3]);
}

// sums[m][c] += a[m] times rows [row, row + 16) of `right`.
template <int K, int M, class T>
__device__ inline void add_product(const Lane<K>& lane, const std::uint32_t (&a)[M][4],
                                   const T* right, int row, float (&sums)[M][K / 8][4]) {
#pragma unroll
  for (int c = 0; c < K / 8; c += 2) {
    std::uint32_t b[4];
    lane.load_right_rows(right, row, c / 2, b);
#pragma unroll
    for (int m = 0; m < M; ++m) multiply_pair<T>(a[m], b, sums[m][c], sums[m][c + 1]);
  }
}

// sums[m][c] += weights[m] (rounded to T) times the rows of `right`.
template <int K, int M, int N, class T>
__device__ inline void add_weighted(const float (&weights)[M][N][4], const T* right,
                                    float (&sums)[M][K / 8][4]) {
  const Lane<K> lane;
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    std::uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) pack_left<T>(weights[m][n], weights[m][n + 1], a[m]);
    add_product(lane, a, right, 8 * n, sums);
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

// The softmax of a lane's rows so far. Maxima are of scores before the factor, which is
// positive; sums are over this lane's keys alone.
template <int M>
struct Softmax {
  float most[M][2], sum[M][2];

  // Scores become probabilities against the new maximum; earlier outputs shrink.
  template <int N, int C>
  __device__ void update(float factor, float (&s)[M][N][4], float (&o)[M][C][4]) {
    constexpr float never = -std::numeric_limits<float>::infinity();
    float shrink[M][2];
    bool shrinks = false;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float largest = most[m][i];
#pragma unroll
        for (int n = 0; n < N; ++n)
          largest = fmaxf(largest, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
        largest = quad_max(largest);
        // Rounded products: in a fused one the difference of equal maxima would be what
        // the other had lost by rounding, and earlier outputs would shrink in every tile.
        const float from = largest == never ? 0.0f : __fmul_rn(largest, factor);
        shrink[m][i] = exp2_approx(__fmul_rn(most[m][i], factor) - from);
        shrinks = shrinks || shrink[m][i] != 1.0f;
        most[m][i] = largest;
        float added = 0;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int j = 2 * i; j < 2 * i + 2; ++j)
            added += s[m][n][j] = exp2_approx(s[m][n][j] * factor - from);
        sum[m][i] = sum[m][i] * shrink[m][i] + added;
      }
    if (__any_sync(all_lanes, shrinks)) scale_rows(shrink, o);  // seldom, later on
  }

  template <int C>
  __device__ static void scale_rows(const float (&factor)[M][2], float (&o)[M][C][4]) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int c = 0; c < C; ++c)
#pragma unroll
        for (int j = 0; j < 4; ++j) o[m][c][j] *= factor[m][j / 2];
  }
};

// Rows of a lane: g and g + 8 of each fragment. f(m, i, query) for each, from `first` on.
template <int M, class F>
__device__ inline void for_rows(int first, const F& f) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) f(m, i, first + 16 * m + 8 * i + lane_index() / 4);
}

// Word c of each lane of a quad becomes word t of lane c, where t was the lane: a lane
// then holds what its quad had of one number of word.
__device__ inline void turn_quad(std::uint32_t (&words)[4]) {
  const bool odd = lane_index() % 2 != 0, upper = lane_index() / 2 % 2 != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got =
        __shfl_xor_sync(all_lanes, odd ? words[i] : words[i + 1], 1);
    (odd ? words[i] : words[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got =
        __shfl_xor_sync(all_lanes, upper ? words[i] : words[i + 2], 2);
    (upper ? words[i] : words[i + 2]) = got;
  }
}

// One row of a head, of which a lane has at(c, 0) and at(c, 1) at columns 8 c + 2 t and
// behind, with t its place in the quad that shares the row. Rounded ones are stored by 16
// bytes. All lanes of a warp call it; those that are not `inside` store nothing.
template <int K, class T, class At>
__device__ inline void put_row(const Target<T>& target, std::int64_t b, int row,
                               bool inside, std::int64_t column, const At& at) {
  const int place = lane_index() % 4;
  if (target.rounded.data == nullptr) {
    if (!inside) return;
#pragma unroll
    for (int c = 0; c < K / 8; ++c)
      target.put_sums(b, row, column + 8 * c + 2 * place, at(c, 0), at(c, 1));
    return;
  }
#pragma unroll
  for (int c = 0; c < K / 8; c += 4) {
    Pack<std::uint32_t> words;
#pragma unroll
    for (int i = 0; i < 4; ++i) words.x[i] = pack_pair<T>(at(c + i, 0), at(c + i, 1));
    turn_quad(words.x);
    T* const to = target.rounded.at(b, row, column + 8 * (c + place));
    if (inside) store_pack(reinterpret_cast<std::uint32_t*>(to), words);
  }
}

// The keys that queries of a warp see: all of them see [last_begin, first_end), and none
// sees any outside [first_begin, last_end).
template <int M>
struct WarpKeys {
  int first_begin = 0, last_begin = 0, first_end = 0, last_end = 0;

  // Of queries [first, first + 16 M). `begins` holds their first and last begin.
  __device__ WarpKeys(const Geometry& part, int first, const int* begins) {
    if (first >= part.queries) return;
    if (part.first != nullptr) {
      first_begin = begins[0];
      last_begin = begins[1];
    }
    first_end = part.end(first);
    last_end = part.end(min(first + 16 * M, part.queries) - 1);
  }
  __device__ static void find_begins(const Geometry& part, int b, int first,
                                     int* begins) {
    int least = part.keys, greatest = 0;
    for_rows<M>(first, [&](int, int, int query) {
      const int begin = query < part.queries ? part.begin(b, query) : part.keys;
      least = min(least, begin);
      greatest = max(greatest, begin);
    });
    begins[0] = -warp_max(-least);
    begins[1] = warp_max(greatest);
  }

  __device__ bool some_in(int key, int count) const {
    return key < last_end && key + count > first_begin;
  }
  __device__ bool all_in(int key, int count) const {
    return key >= last_begin && key + count <= first_end;
  }
};

// Scores of keys that a query does not see become minus infinity.
template <int M, int N>
__device__ inline void hide(const Geometry& part, int b, int first, int first_key,
                            float (&s)[M][N][4]) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  for_rows<M>(first, [&](int m, int i, int query) {
    const int begin = query < part.queries ? part.begin(b, query) : 0;
    const int end = part.end(query), key = first_key + lane_index() % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (key + 8 * n + j < begin || key + 8 * n + j >= end) s[m][n][2 * i + j] = never;
  });
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
