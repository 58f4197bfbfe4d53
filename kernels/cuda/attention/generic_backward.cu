// Attention backward in plain arithmetic: every type, every head width.
// SPDX-License-Identifier: Apache-2.0
// One kernel does dq, by tiles of queries, and one does dk and dv, by tiles of keys, so
// that every sum has one owner and a fixed order.
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// Source: Dao, "FlashAttention-2", 2023, algorithm 2, with s' = scale log2(e) q k^T.
#include <cmath>
#include <cuda_machine/shared.cuh>

#include "kernels/cuda/attention/generic.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace tiles;

constexpr std::int64_t query_elements(int R, std::int64_t width) {
  return buffer_elements(R * side) + tile_elements(R * side) + R * side * width;
}
constexpr std::int64_t key_elements(int R, std::int64_t width) {
  return query_elements(R, width) + R * side * width;
}

template <int R, class W>
__device__ void clear(W* sums, int width) {
  for (int i = static_cast<int>(threadIdx.x); i < R * side * width; i += threads)
    sums[i] = 0;
}

// Rows of a tile of sums, times `factor`, to rows [first, first + rows) of the target.
template <class T, int R>
__device__ void put(const Wide<T>* sums, Wide<T> factor, int rows, int width,
                    const Target<T>& target, std::int64_t b, int first,
                    std::int64_t column) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += threads)
    target.put(b, first + i / width, column + i % width, factor * sums[i]);
}

// What backward needs of one query.
template <class W>
struct Query {
  int begin, end;  // the keys it sees
  W lse, delta;    // lse in units of log 2

  template <class T>
  __device__ Query(const BackwardOperands<T>& x, std::int64_t b, int h, int query) {
    const bool inside = query < x.part.queries;
    begin = inside ? x.part.begin(b, query) : x.part.keys;
    end = inside ? x.part.end(query) : 0;
    lse = inside ? *x.lse.at(b, query, h) * static_cast<W>(log2_e) : W(0);
    delta = inside ? *x.delta.at(b, query, h) : W(0);
  }
  // The probability of a key by its score.
  __device__ W p(W score, int key) const {
    return key >= begin && key < end ? power_of_2(score - lse) : W(0);
  }
};

// What the gradient of a capped score is multiplied by.
template <bool More, class W>
__device__ W slope(W score, W cap) {
  if constexpr (More)
    if (cap > 0) return 1 - score / cap * (score / cap);
  return 1;
}

// What dropout multiplies a probability by.
template <bool More, class W>
__device__ W kept(const Geometry& part, std::int64_t b, int h, int query, int key) {
  if constexpr (More) return static_cast<W>(part.factor_of(b, h, query, key));
  return 1;
}

template <class T, int R, bool More>
__global__ void __launch_bounds__(threads, 1) queries_backward(BackwardOperands<T> x) {
  using W = Wide<T>;
  const Geometry& part = x.part;
  const int tiles_of_queries = (part.queries + R * side - 1) / (R * side);
  const int pair = static_cast<int>(blockIdx.x) / tiles_of_queries;
  const int from_last = static_cast<int>(blockIdx.x) % tiles_of_queries;
  const std::int64_t b = pair / part.heads;
  const int h = pair % part.heads, first = (tiles_of_queries - 1 - from_last) * R * side;
  const std::int64_t column = std::int64_t{h} * part.width;
  const std::int64_t kv_column = std::int64_t{part.kv_head[h]} * part.width;
  const int lane = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  W* const buffer = dynamic_shared<W>();
  W* const ds = buffer + buffer_elements(R * side);
  W* const dq = ds + tile_elements(R * side);
  clear<R>(dq, part.width);

  const int queries = min(R * side, part.queries - first);
  const Operand<T> q{x.q.at(b, first, column), x.q.row, queries};
  const Operand<T> d_o{x.d_o.at(b, first, column), x.d_o.row, queries};
  int begin = 0;  // the same in all threads
  if (part.first != nullptr) {
    begin = part.keys;
    for (int r = 0; r < R; ++r)
      begin = min(begin, Query<W>(x, b, h, first + y + side * r).begin);
    begin = -block_max(-begin);
  }
  W one[R];
  for (int r = 0; r < R; ++r) one[r] = 1;
  for (int key = begin / tile * tile; key < part.end(first + queries - 1); key += tile) {
    const int keys = min(tile, part.keys - key);
    const Operand<T> k{x.k.at(b, key, kv_column), x.k.row, keys};
    const Operand<T> v{x.v.at(b, key, kv_column), x.v.row, keys};
    W s[R][per_thread], dp[R][per_thread];
    multiply<R>(q, k, part.width, buffer, s);
    multiply<R>(d_o, v, part.width, buffer, dp);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Query<W> query(x, b, h, first + y + side * r);
#pragma unroll
      for (int c = 0; c < per_thread; ++c) {
        const W score =
            capped<More>(static_cast<W>(part.factor) * s[r][c], static_cast<W>(part.cap));
        const int at = key + lane + side * c;
        const W factor = kept<More, W>(part, b, h, first + y + side * r, at);
        s[r][c] = query.p(score, at) * (factor * dp[r][c] - query.delta) *
                  slope<More>(score, static_cast<W>(part.cap));
      }
    }
    store<R>(s, ds);
    accumulate<R>(ds, k, part.width, one, buffer, dq);
  }
  put<T, R>(dq, static_cast<W>(part.scale), queries, part.width, x.dq, b, first, column);
}

// Whether some query of [first, first + 64) sees a key before `end`. All threads call it.
template <class T>
__device__ bool any_sees(const BackwardOperands<T>& x, std::int64_t b, int first,
                         int end) {
  if (x.part.first == nullptr) return true;
  const int query = first + static_cast<int>(threadIdx.x) % tile;
  const bool sees = query < x.part.queries && x.part.begin(b, query) < end;
  return block_max(sees ? 1 : 0) == 1;
}

// A tile of keys takes the queries of all heads that share its key/value head, in order.
template <class T, int R, bool More>
__global__ void __launch_bounds__(threads, 1) keys_backward(BackwardOperands<T> x) {
  using W = Wide<T>;
  const Geometry& part = x.part;
  const int tiles_of_keys = (part.keys + R * side - 1) / (R * side);
  const int pair = static_cast<int>(blockIdx.x) / tiles_of_keys;
  const int first = static_cast<int>(blockIdx.x) % tiles_of_keys * R * side;
  const std::int64_t b = pair / part.kv_heads;
  const int kv_head = pair % part.kv_heads;
  const std::int64_t kv_column = std::int64_t{kv_head} * part.width;
  const int lane = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  W* const buffer = dynamic_shared<W>();
  W* const p = buffer + buffer_elements(R * side);  // then ds
  W* const dk = p + tile_elements(R * side);
  W* const dv = dk + R * side * part.width;
  clear<R>(dk, 2 * part.width);

  const int keys = min(R * side, part.keys - first);
  const Operand<T> k{x.k.at(b, first, kv_column), x.k.row, keys};
  const Operand<T> v{x.v.at(b, first, kv_column), x.v.row, keys};
  const int first_query = max(0, first - part.past) / tile * tile;
  W one[R];
  for (int r = 0; r < R; ++r) one[r] = 1;
  for (int h = 0; h < part.heads; ++h) {
    if (part.kv_head[h] != kv_head) continue;
    const std::int64_t column = std::int64_t{h} * part.width;
    for (int at = first_query; at < part.queries; at += tile) {
      if (!any_sees(x, b, at, first + keys)) continue;
      const int queries = min(tile, part.queries - at);
      const Operand<T> q{x.q.at(b, at, column), x.q.row, queries};
      const Operand<T> d_o{x.d_o.at(b, at, column), x.d_o.row, queries};
      W s[R][per_thread], dp[R][per_thread];
      multiply<R>(k, q, part.width, buffer, s);
      multiply<R>(v, d_o, part.width, buffer, dp);
#pragma unroll
      for (int c = 0; c < per_thread; ++c) {
        const Query<W> query(x, b, h, at + lane + side * c);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const W score = capped<More>(static_cast<W>(part.factor) * s[r][c],
                                       static_cast<W>(part.cap));
          const int key = first + y + side * r;
          const W factor = kept<More, W>(part, b, h, at + lane + side * c, key);
          const W probability = query.p(score, key);
          dp[r][c] = probability * (factor * dp[r][c] - query.delta) *
                     slope<More>(score, static_cast<W>(part.cap));
          s[r][c] = factor * probability;
        }
      }
      store<R>(s, p);
      accumulate<R>(p, d_o, part.width, one, buffer, dv);
      __syncthreads();
      store<R>(dp, p);
      accumulate<R>(p, q, part.width, one, buffer, dk);
    }
  }
  put<T, R>(dk, static_cast<W>(part.scale), keys, part.width, x.dk, b, first, kv_column);
  put<T, R>(dv, W(1), keys, part.width, x.dv, b, first, kv_column);
}

}  // namespace

template <class T>
void backward_generic(Stream& stream, std::int64_t B,
                      const BackwardOperands<DeviceType<T>>& x) {
  using D = DeviceType<T>;
  const auto grid = [&](std::int64_t blocks, std::int64_t elements) {
    return Grid{{extent(blocks)},
                {threads},
                sizeof(Wide<D>) * static_cast<std::size_t>(elements)};
  };
  const Geometry& part = x.part;
  if (part.heads > 0)
    with_rows<Wide<D>>(
        stream, "attention_backward", part.width, query_elements, [&]<int R>() {
          launch(stream,
                 grid(B * part.heads * divide_up(part.queries, R * side),
                      query_elements(R, part.width)),
                 part.cap > 0 || part.drops ? queries_backward<D, R, true>
                                            : queries_backward<D, R, false>,
                 x);
        });
  if (part.kv_heads > 0)
    with_rows<Wide<D>>(stream, "attention_backward", part.width, key_elements,
                       [&]<int R>() {
                         launch(stream,
                                grid(B * part.kv_heads * divide_up(part.keys, R * side),
                                     key_elements(R, part.width)),
                                part.cap > 0 || part.drops ? keys_backward<D, R, true>
                                                           : keys_backward<D, R, false>,
                                x);
                       });
}

template void backward_generic<double>(Stream&, std::int64_t,
                                       const BackwardOperands<double>&);
template void backward_generic<float>(Stream&, std::int64_t,
                                      const BackwardOperands<float>&);
template void backward_generic<BFloat16>(Stream&, std::int64_t,
                                         const BackwardOperands<__nv_bfloat16>&);
template void backward_generic<Float16>(Stream&, std::int64_t,
                                        const BackwardOperands<__half>&);

}  // namespace trireme::kernels::cuda
