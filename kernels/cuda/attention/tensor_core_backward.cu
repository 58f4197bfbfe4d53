// Attention backward on tensor cores, in bf16 and fp16.
// SPDX-License-Identifier: Apache-2.0
//
// One kernel for dq, by tiles of queries, and one for dk and dv, by tiles of keys: 7
// products where one pass needs 5 (one_pass_backward.cu), but every sum has
// one owner and a fixed order, without atomics and without dq in fp32. Probabilities and
// their gradients go from sums to operands in registers. Legend: B sequences, S
// positions, H query heads, G key/value heads, K head width. Source: Dao,
// "FlashAttention-2", 2023, algorithm 2.
#include "kernels/cuda/attention/generic.cuh"
#include "kernels/cuda/attention/query_tiles.cuh"
#include "kernels/cuda/common/launch.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace fragments;

// Fragments of 16 rows that a warp owns: what registers allow without spills, and, of
// queries, shared memory: at width 128 two are more than a block has on 8.6, 8.9
// and 12.x. Sums of a row do not depend on it.
constexpr int most_query_fragments = 2;
template <int K>
constexpr int key_fragments = K > 64 ? 1 : 2;

constexpr int other_rows = 32;  // of a tile of the other side
constexpr int N = other_rows / 8;
constexpr int stages = 3;  // such tiles in shared memory: one in use, two to come

template <int K, int M>
constexpr std::size_t query_bytes() {
  return std::size_t{4} * K * (warps * M * rows + stages * other_rows);
}

// s becomes p, and dp becomes ds, of queries whose lse and delta the thread holds.
template <int M>
__device__ inline void differentiate(float factor, const float (&lse)[M][2],
                                     const float (&delta)[M][2],
                                     const float (&s)[M][N][4], float (&dp)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = exp2_approx(s[m][n][i] * factor - lse[m][i / 2]);
        dp[m][n][i] = p * (dp[m][n][i] - delta[m][i / 2]);
      }
}

// lse and delta of the thread's queries of head h of sequence b.
template <int M, class T>
__device__ inline void load_numbers(const BackwardOperands<T>& x, int b, int h,
                                    int first_of_warp, float (&lse)[M][2],
                                    float (&delta)[M][2]) {
  for_rows<M>(first_of_warp, [&](int m, int i, int query) {
    const bool inside = query < x.part.queries;
    lse[m][i] = inside ? exponent_of(*x.lse.at(b, query, h)) : 0.0f;
    delta[m][i] = inside ? *x.delta.at(b, query, h) : 0.0f;
  });
}

template <class T, int K, int M>
__global__ void __launch_bounds__(threads) queries_backward(BackwardOperands<T> x) {
  constexpr int tile_queries = warps * M * rows;
  const Geometry& part = x.part;
  const int tiles = (part.queries + tile_queries - 1) / tile_queries;
  const int pair = static_cast<int>(blockIdx.x) / tiles;
  const int from_last = static_cast<int>(blockIdx.x) % tiles;  // the longest first
  const int b = pair / part.heads, h = pair % part.heads;
  const int first = (tiles - 1 - from_last) * tile_queries;
  const int first_of_warp = first + warp_index() * M * rows;
  const std::int64_t column = std::int64_t{h} * K;
  const std::int64_t kv_column = std::int64_t{part.kv_head[h]} * K;

  T* const of_q = dynamic_shared<T>();
  T* const of_do = of_q + tile_queries * K;
  T* const of_kv = of_do + tile_queries * K;  // [stages][k, v][other_rows][K]
  const auto start_tile = [&](int key, int stage) {
    T* const to = of_kv + stage * 2 * other_rows * K;
    const int keys = part.keys - key, sequence = recomputed(b);
    load_rows<K, other_rows>(x.k.at(sequence, key, kv_column), x.k.row, keys, to);
    load_rows<K, other_rows>(x.v.at(sequence, key, kv_column), x.v.row, keys,
                             to + other_rows * K);
  };
  __shared__ int begins[warps][2];
  int key = 0;
  if (part.first != nullptr) {
    WarpKeys<M>::find_begins(part, b, first_of_warp, begins[warp_index()]);
    key = -block_max(-begins[warp_index()][0]) / other_rows * other_rows;
  }
  const int last_key = part.end(min(first + tile_queries, part.queries) - 1);
  const int queries = part.queries - first;
  load_rows<K, tile_queries>(x.q.at(b, first, column), x.q.row, queries, of_q);
  load_rows<K, tile_queries>(x.d_o.at(b, first, column), x.d_o.row, queries, of_do);
  for (int i = 0; i < 2; ++i) {
    if (key + i * other_rows < last_key) start_tile(key + i * other_rows, i);
    cp_async_commit();  // of nothing, if there is no tile: groups are counted
  }
  float lse[M][2], delta[M][2], dq[M][K / 8][4] = {};
  load_numbers<M>(x, b, h, first_of_warp, lse, delta);
  for (int stage = 0; key < last_key; key += other_rows, stage = (stage + 1) % stages) {
    cp_async_wait<1>();
    __syncthreads();  // the tile is there, and all are done with the one before
    if (key + 2 * other_rows < last_key)
      start_tile(key + 2 * other_rows, (stage + 2) % stages);
    cp_async_commit();
    const int warp = warp_index();
    const int row_of_warp = warp * M * rows, own = first + row_of_warp;
    const WarpKeys<M> visible(part, own, begins[warp]);
    if (!visible.some_in(key, other_rows)) continue;
    const T* const of_k = of_kv + stage * 2 * other_rows * K;
    float s[M][N][4], dp[M][N][4];
    multiply_rows<K>(of_q, row_of_warp, of_k, s);
    multiply_rows<K>(of_do, row_of_warp, of_k + other_rows * K, dp);
    if (!visible.all_in(key, other_rows)) hide(part, b, own, key, s);
    differentiate<M>(static_cast<float>(part.factor), lse, delta, s, dp);
    add_weighted<K>(dp, of_k, dq);
  }
  cp_async_wait<0>();
  put<K, M>(dq, static_cast<float>(part.scale), x.dq, b, first_of_warp, part.queries,
            column);
}

template <int K>
constexpr std::size_t key_bytes() {
  return std::size_t{4} * K * (warps * key_fragments<K> * rows + stages * other_rows);
}

template <class T, int K>
__global__ void __launch_bounds__(threads) keys_backward(BackwardOperands<T> x) {
  constexpr int M = key_fragments<K>, tile_keys = warps * M * rows;
  const Geometry& part = x.part;
  const int tiles = (part.keys + tile_keys - 1) / tile_keys;
  const int pair = static_cast<int>(blockIdx.x) / tiles;
  const int b = pair / part.kv_heads, kv_head = pair % part.kv_heads;
  const int first = static_cast<int>(blockIdx.x) % tiles * tile_keys;
  const std::int64_t kv_column = std::int64_t{kv_head} * K;
  const int keys = part.keys - first;

  T* const of_k = dynamic_shared<T>();
  T* const of_v = of_k + tile_keys * K;
  T* const of_queries = of_v + tile_keys * K;  // [stages][q, do][other_rows][K]
  __shared__ QueryNumbers<other_rows, stages> numbers;
  if (threadIdx.x == 0) numbers.column = kv_column;
  QueryNumber coming;  // of the latest tile that was started, in warp 0
  load_rows<K, tile_keys>(x.k.at(b, first, kv_column), x.k.row, keys, of_k);
  load_rows<K, tile_keys>(x.v.at(b, first, kv_column), x.v.row, keys, of_v);
  QueryTiles<T, tile_keys, other_rows> tile(x, b, kv_head, first);
  const auto start_next = [&](int stage) {
    if (threadIdx.x == 0) numbers.at[stage] = tile.valid() ? tile.at : -1;
    if (tile.valid()) {
      load_queries<K, threads>(tile, of_queries + stage * 2 * other_rows * K);
      if (warp_index() == 0) coming.load(tile);
      tile.next();
    }
    cp_async_commit();  // of nothing, if there is no tile: groups are counted
  };
  start_next(0);
  if (warp_index() == 0) coming.store(numbers, 0);
  start_next(1);
  float dk[M][K / 8][4] = {}, dv[M][K / 8][4] = {};
  for (int stage = 0;; stage = (stage + 1) % stages) {
    cp_async_wait<1>();
    __syncthreads();  // the tile is there, and all are done with the one before
    const int at = numbers.at[stage];
    if (at < 0) break;
    if (warp_index() == 0) coming.store(numbers, (stage + 1) % stages);
    start_next((stage + 2) % stages);
    // Not behind the last query that sees the warp's first key.
    const int row_of_warp = warp_index() * M * rows;
    const int own = first + row_of_warp;
    if (own < part.end(min(at + other_rows, part.queries) - 1)) {
      const T* const of_q = of_queries + stage * 2 * other_rows * K;
      float s[M][N][4], dp[M][N][4];
      multiply_rows<K>(of_k, row_of_warp, of_q, s);
      multiply_rows<K>(of_v, row_of_warp, of_q + other_rows * K, dp);
      differentiate(part, numbers, stage, own, at, s, dp);
      add_weighted<K>(s, of_q + other_rows * K, dv);
      add_weighted<K>(dp, of_q, dk);
    }
  }
  cp_async_wait<0>();
  const int first_of_warp = first + warp_index() * M * rows;
  put<K, M>(dk, static_cast<float>(part.scale), x.dk, b, first_of_warp, part.keys,
            numbers.column);
  put<K, M>(dv, 1.0f, x.dv, b, first_of_warp, part.keys, numbers.column);
}

template <int K, int M, class T>
void start_queries(Stream& stream, std::int64_t B, const BackwardOperands<T>& x) {
  const std::int64_t tile_queries = warps * M * rows;
  const std::int64_t tiles = divide_up(x.part.queries, tile_queries);
  const Grid grid{{extent(B * x.part.heads * tiles)}, {threads}, query_bytes<K, M>()};
  launch(stream, grid, queries_backward<T, K, M>, x);
}

}  // namespace

template <class T>
void backward_tensor_core(Stream& stream, std::int64_t B,
                          const BackwardOperands<DeviceType<T>>& x) {
  using D = DeviceType<T>;
  with_width(x.part.width, [&]<int K>() {
    const std::int64_t tile_keys = warps * key_fragments<K> * rows;
    if (x.part.heads > 0) {
      constexpr auto most_bytes =
          static_cast<std::int64_t>(query_bytes<K, most_query_fragments>());
      if (most_bytes <= shared_limit(stream))
        start_queries<K, most_query_fragments, D>(stream, B, x);
      else if constexpr (most_bytes > least_shared_limit)
        start_queries<K, 1, D>(stream, B, x);
    }
    if (x.part.kv_heads > 0)
      launch(stream,
             Grid{{extent(B * x.part.kv_heads * divide_up(x.part.keys, tile_keys))},
                  {threads},
                  key_bytes<K>()},
             keys_backward<D, K>, x);
  });
}

template void backward_tensor_core<BFloat16>(Stream&, std::int64_t,
                                             const BackwardOperands<__nv_bfloat16>&);
template void backward_tensor_core<Float16>(Stream&, std::int64_t,
                                            const BackwardOperands<__half>&);

}  // namespace trireme::kernels::cuda
