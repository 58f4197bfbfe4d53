// Attention forward on tensor cores, in bf16 and fp16.
// SPDX-License-Identifier: Apache-2.0
// A block does 128 queries of one head of one sequence, 32 a warp, 64 keys at a time,
// which arrive while the ones before are worked on.
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// Source: Dao, "FlashAttention-2", 2023, algorithm 1 and section 3.3.
#include <limits>

#include "kernels/cuda/attention/fragments.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace fragments;

constexpr int fragments_of_warp = 2;  // 16 queries each
constexpr int M = fragments_of_warp;
constexpr int tile_queries = warps * M * 16;

// Keys of a tile: fewer where outputs need most registers, so that none spill.
template <int K>
constexpr int tile_keys = K > 64 ? 32 : 64;
constexpr int stages = 3;  // tiles of keys in shared memory: one in use, two to come
template <int K>
constexpr std::size_t shared_bytes() {
  return std::size_t{2} * K * (tile_queries + 2 * stages * tile_keys<K>);
}

using Softmax = fragments::Softmax<M>;

// Starts with nothing, or with what earlier parts left of the queries from `first` on.
template <class T, int K>
__device__ void resume(const ForwardOperands<T>& x, int b, int h, int first,
                       Softmax& softmax, float (&o)[M][K / 8][4]) {
  const int column = lane_index() % 4 * 2;
  for_rows<M>(first, [&](int m, int i, int query) {
    const bool inside = x.merged && query < x.part.queries;
    softmax.most[m][i] = inside
                             ? *x.lse.at(b, query, h) / static_cast<float>(x.part.scale)
                             : -std::numeric_limits<float>::infinity();
    softmax.sum[m][i] = inside && column == 0 ? 1.0f : 0.0f;
#pragma unroll
    for (int c = 0; c < K / 8; ++c) {
      const float2 sums = inside ? *reinterpret_cast<const float2*>(x.o.sums.at(
                                       b, query, std::int64_t{h} * K + 8 * c + column))
                                 : float2{0, 0};
      o[m][c][2 * i] = sums.x;
      o[m][c][2 * i + 1] = sums.y;
    }
  });
}

// o = sums / sum, lse = scale max + ln sum; 0 and minus infinity where no key was seen
template <class T, int K>
__device__ void finish(const ForwardOperands<T>& x, int b, int h, int first,
                       const Softmax& softmax, const float (&o)[M][K / 8][4]) {
  const int column = lane_index() % 4 * 2;
  for_rows<M>(first, [&](int m, int i, int query) {
    const float sum = quad_sum(softmax.sum[m][i]);
    const bool inside = query < x.part.queries;
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    put_row<K>(x.o, b, query, inside, std::int64_t{h} * K,
               [&](int c, int j) { return o[m][c][2 * i + j] * inverse; });
    if (inside && column == 0 && x.lse.data != nullptr)
      *x.lse.at(b, query, h) =
          sum == 0.0f ? -std::numeric_limits<float>::infinity()
                      : softmax.most[m][i] * static_cast<float>(x.part.scale) + logf(sum);
  });
}

template <class T, int K>
__global__ void __launch_bounds__(threads) forward_tile(ForwardOperands<T> x) {
  constexpr int Keys = tile_keys<K>;
  const Geometry& part = x.part;
  const int tiles = (part.queries + tile_queries - 1) / tile_queries;
  const int pair = static_cast<int>(blockIdx.x) / tiles;
  const int from_last = static_cast<int>(blockIdx.x) % tiles;  // the longest first
  const int b = pair / part.heads;
  const int h = pair % part.heads, first = (tiles - 1 - from_last) * tile_queries;
  const std::int64_t kv_column = std::int64_t{part.kv_head[h]} * K;
  const int first_of_warp = first + warp_index() * 16 * M;

  T* const of_q = dynamic_shared<T>();
  T* const of_kv = of_q + tile_queries * K;  // [stages][k, v][Keys][K]
  const auto start_tile = [&](int key, int stage) {
    const int keys = min(Keys, part.keys - key);
    T* const to = of_kv + stage * 2 * Keys * K;
    load_rows<K, Keys>(x.k.at(b, key, kv_column), x.k.row, keys, to);
    load_rows<K, Keys>(x.v.at(b, key, kv_column), x.v.row, keys, to + Keys * K);
  };

  const int last_key = part.end(min(first + tile_queries, part.queries) - 1);
  __shared__ int begins[warps][2];
  int key = 0;
  if (part.first != nullptr) {
    int* const own = begins[warp_index()];
    WarpKeys<M>::find_begins(part, b, first_of_warp, own);
    key = -block_max(-own[0]) / Keys * Keys;
  }
  load_rows<K, tile_queries>(x.q.at(b, first, std::int64_t{h} * K), x.q.row,
                             part.queries - first, of_q);
  for (int i = 0; i < 2; ++i) {
    if (key + i * Keys < last_key) start_tile(key + i * Keys, i);
    cp_async_commit();  // of nothing, if there is no tile: groups are counted
  }
  Softmax softmax;
  float o[M][K / 8][4];
  resume<T, K>(x, b, h, first_of_warp, softmax, o);
  for (int stage = 0; key < last_key; key += Keys, stage = (stage + 1) % stages) {
    cp_async_wait<1>();
    __syncthreads();  // the tile is there, and all are done with the one before
    if (key + 2 * Keys < last_key) start_tile(key + 2 * Keys, (stage + 2) % stages);
    cp_async_commit();
    const WarpKeys<M> visible(part, first_of_warp, begins[warp_index()]);
    if (visible.some_in(key, Keys)) {
      const T* const of_k = of_kv + stage * 2 * Keys * K;
      float s[M][Keys / 8][4];
      multiply_rows<K>(of_q, warp_index() * 16 * M, of_k, s);
      if (!visible.all_in(key, Keys)) hide(part, b, first_of_warp, key, s);
      softmax.update(static_cast<float>(part.factor), s, o);
      add_weighted<K>(s, of_k + Keys * K, o);
    }
  }
  cp_async_wait<0>();
  finish<T, K>(x, b, h, first_of_warp, softmax, o);
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
