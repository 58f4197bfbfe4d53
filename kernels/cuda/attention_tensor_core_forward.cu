// Attention forward on tensor cores, in bf16 and fp16: a block does 128 queries of one
// head of one sequence, 32 a warp, 64 keys at a time, which arrive while the ones before
// are worked on.
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// Source: Dao, "FlashAttention-2", 2023, algorithm 1 and section 3.3.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/cuda/attention_fragments.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace fragments;

constexpr int fragments_of_warp = 2;  // 16 queries each
constexpr int M = fragments_of_warp;
constexpr int tile_queries = warps * M * 16;

// Keys of a tile: fewer where outputs need most registers, so that none spill.
template <int K>
constexpr int tile_keys = K > 64 ? 48 : 64;
template <int K>
constexpr std::size_t shared_bytes() {
  return std::size_t{2} * K * (tile_queries + 4 * tile_keys<K>);
}

// The queries of a warp as a lane sees them: rows g and g + 8 of each fragment. Maxima
// are of scores before the factor, which is positive.
template <int Keys>
struct WarpQueries {
  static constexpr int N = Keys / 8;
  float most[M][2], sum[M][2];  // the sum over this lane's keys alone
  int begin[M][2];              // they see keys [begin, end)
  int end;                      // of row g of fragment 0; one more for each row on
  int first_begin, last_begin, first_end, last_end;  // of all rows of the warp

  __device__ WarpQueries(const Geometry& part, std::int64_t b, int first) {
    constexpr float never = -std::numeric_limits<float>::infinity();
    const int g = lane_index() / 4;
    first_begin = last_begin = 0;
    first_end = part.end(first);
    last_end = part.end(min(first + 16 * M, part.queries) - 1);
    if (first >= part.queries) last_end = 0;
    end = first + g + part.past + 1;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = min(first + 16 * m + 8 * i + g, part.queries - 1);
        most[m][i] = never;
        sum[m][i] = 0;
        begin[m][i] = part.begin(b, query);
      }
    if (part.first == nullptr) return;
    int least = begin[0][0], greatest = begin[0][0];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        least = min(least, begin[m][i]);
        greatest = max(greatest, begin[m][i]);
      }
    first_begin = -warp_max(-least);
    last_begin = warp_max(greatest);
  }

  __device__ bool sees_some(int key) const {
    return key < last_end && key + Keys > first_begin;
  }
  __device__ bool sees_all(int key) const {
    return key >= last_begin && key + Keys <= first_end;
  }

  __device__ void hide(const Geometry& part, int first_key, float (&s)[M][N][4]) const {
    constexpr float never = -std::numeric_limits<float>::infinity();
    const int t = lane_index() % 4;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = first_key + 8 * n + 2 * t + i % 2;
          const int last = min(end + 16 * m + 8 * (i / 2), part.keys);
          if (key < begin[m][i / 2] || key >= last) s[m][n][i] = never;
        }
  }

  // Scores become probabilities against the new maximum; earlier outputs shrink.
  template <int K>
  __device__ void update(float factor, float (&s)[M][N][4], float (&o)[M][K / 8][4]) {
    constexpr float never = -std::numeric_limits<float>::infinity();
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float largest = most[m][i];
#pragma unroll
        for (int n = 0; n < N; ++n)
          largest = fmaxf(largest, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
        largest = quad_max(largest);
        const float from = largest == never ? 0.0f : largest * factor;
        const float shrink = exp2_approx(most[m][i] * factor - from);
        most[m][i] = largest;
        float added = 0;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int j = 2 * i; j < 2 * i + 2; ++j)
            added += s[m][n][j] = exp2_approx(s[m][n][j] * factor - from);
        sum[m][i] = sum[m][i] * shrink + added;
#pragma unroll
        for (int c = 0; c < K / 8; ++c) {
          o[m][c][2 * i] *= shrink;
          o[m][c][2 * i + 1] *= shrink;
        }
      }
  }
};

// Goes on from what earlier parts left of the queries of a warp, from `first` on.
template <class T, int K>
__device__ void resume(const ForwardOperands<T>& x, std::int64_t b, int h, int first,
                       WarpQueries<tile_keys<K>>& queries, float (&o)[M][K / 8][4]) {
  const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = first + 16 * m + 8 * i + g;
      const bool inside = x.merged && query < x.part.queries;
      if (inside) {
        queries.most[m][i] = *x.lse.at(b, query, h) / static_cast<float>(x.part.scale);
        queries.sum[m][i] = t == 0 ? 1.0f : 0.0f;
      }
#pragma unroll
      for (int c = 0; c < K / 8; ++c) {
        const float2 sums = inside ? *reinterpret_cast<const float2*>(x.o.sums.at(
                                         b, query, std::int64_t{h} * K + 8 * c + 2 * t))
                                   : float2{0, 0};
        o[m][c][2 * i] = sums.x;
        o[m][c][2 * i + 1] = sums.y;
      }
    }
}

// o = sums / sum, lse = scale max + ln sum; 0 and minus infinity where no key was seen
template <class T, int K>
__device__ void finish(const ForwardOperands<T>& x, std::int64_t b, int h, int first,
                       const WarpQueries<tile_keys<K>>& queries,
                       const float (&o)[M][K / 8][4]) {
  const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = first + 16 * m + 8 * i + g;
      const float sum = quad_sum(queries.sum[m][i]);
      if (query >= x.part.queries) continue;
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
      for (int c = 0; c < K / 8; ++c)
        x.o.put_pair(b, query, std::int64_t{h} * K + 8 * c + 2 * t,
                     o[m][c][2 * i] * inverse, o[m][c][2 * i + 1] * inverse);
      if (t == 0 && x.lse.data != nullptr)
        *x.lse.at(b, query, h) =
            sum == 0.0f
                ? -std::numeric_limits<float>::infinity()
                : queries.most[m][i] * static_cast<float>(x.part.scale) + logf(sum);
    }
}

template <class T, int K>
__global__ void __launch_bounds__(threads) forward_tile(ForwardOperands<T> x) {
  constexpr int Keys = tile_keys<K>;
  const Geometry& part = x.part;
  const int tiles = (part.queries + tile_queries - 1) / tile_queries;
  const int pair = static_cast<int>(blockIdx.x) / tiles;
  const int from_last = static_cast<int>(blockIdx.x) % tiles;  // the longest first
  const std::int64_t b = pair / part.heads;
  const int h = pair % part.heads, first = (tiles - 1 - from_last) * tile_queries;
  const std::int64_t kv_column = std::int64_t{part.kv_head[h]} * K;
  const int first_of_warp = first + warp_index() * 16 * M;

  T* const of_q = dynamic_shared<T>();
  T* const of_kv = of_q + tile_queries * K;  // [2 stages][k, v][Keys][K]
  const auto start_tile = [&](int key, int stage) {
    const int keys = min(Keys, part.keys - key);
    T* const to = of_kv + stage * 2 * Keys * K;
    load_rows<K, Keys>(x.k.at(b, key, kv_column), x.k.row, keys, to);
    load_rows<K, Keys>(x.v.at(b, key, kv_column), x.v.row, keys, to + Keys * K);
  };

  const int last_key = part.end(min(first + tile_queries, part.queries) - 1);
  WarpQueries<Keys> queries(part, b, first_of_warp);
  int key = part.first == nullptr ? 0 : -block_max(-queries.first_begin);
  key = key / Keys * Keys;
  load_rows<K, tile_queries>(x.q.at(b, first, std::int64_t{h} * K), x.q.row,
                             part.queries - first, of_q);
  if (key < last_key) start_tile(key, 0);
  cp_async_commit();
  float o[M][K / 8][4];
  resume<T, K>(x, b, h, first_of_warp, queries, o);
  for (int stage = 0; key < last_key; key += Keys, stage ^= 1) {
    if (key + Keys < last_key) start_tile(key + Keys, stage ^ 1);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    if (queries.sees_some(key)) {
      const T* const of_k = of_kv + stage * 2 * Keys * K;
      float s[M][Keys / 8][4];
      multiply_rows<K>(of_q, warp_index() * 16 * M, of_k, s);
      if (!queries.sees_all(key)) queries.hide(part, key, s);
      queries.template update<K>(static_cast<float>(part.factor), s, o);
      add_weighted<K>(s, of_k + Keys * K, o);
    }
    __syncthreads();  // all are done with this stage
  }
  cp_async_wait<0>();
  finish<T, K>(x, b, h, first_of_warp, queries, o);
}

}  // namespace

template <class T>
void forward_tensor_core(Stream& stream, std::int64_t B,
                         const ForwardOperands<DeviceType<T>>& x) {
  with_width(x.part.width, [&]<int K>() {
    const Grid grid{{extent(B * x.part.heads * divide_up(x.part.queries, tile_queries))},
                    {threads},
                    shared_bytes<K>()};
    launch(stream, grid, forward_tile<DeviceType<T>, K>, x);
  });
}

template void forward_tensor_core<BFloat16>(Stream&, std::int64_t,
                                            const ForwardOperands<__nv_bfloat16>&);
template void forward_tensor_core<Float16>(Stream&, std::int64_t,
                                           const ForwardOperands<__half>&);

}  // namespace trireme::kernels::cuda
