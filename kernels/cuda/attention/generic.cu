// Attention forward in plain arithmetic: every type, every head width.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// A block does 16 R queries of one head of one sequence, 64 keys at a time.
// Source: Dao, "FlashAttention-2", 2023, algorithm 1, with s' = scale log2(e) q k^T.
#include <cmath>
#include <cuda_machine/shared.cuh>
#include <limits>

#include "kernels/cuda/attention/generic.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace tiles;

constexpr std::int64_t shared_elements(int R, std::int64_t width) {
  return buffer_elements(R * side) + tile_elements(R * side) + R * side * width;
}

// One tile of queries, as a thread sees it.
template <class W, int R>
struct QueryRows : SoftmaxRows<W, R> {
  __device__ QueryRows(const Geometry& part, std::int64_t b, int first, int y) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int query = first + y + side * r;
      const bool inside = query < part.queries;
      this->most[r] = -std::numeric_limits<W>::infinity();
      this->sum[r] = 0;
      this->begin[r] = inside ? part.begin(b, query) : part.keys;
      this->end[r] = inside ? part.end(query) : 0;
    }
  }
};

template <class T, int R>
__device__ void resume(const ForwardOperands<T>& x, std::int64_t b, int h, int first,
                       QueryRows<Wide<T>, R>& rows, Wide<T>* sums) {
  const int width = x.part.width, lane = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  const std::int64_t column = std::int64_t{h} * width;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int query = first + y + side * r;
    const bool inside = x.merged && query < x.part.queries;
    if (inside) {
      rows.most[r] = *x.lse.at(b, query, h) * static_cast<Wide<T>>(log2_e);
      rows.sum[r] = lane == 0 ? 1 : 0;
    }
    for (int c = lane; c < width; c += side)
      sums[(y + side * r) * width + c] =
          inside ? *x.o.sums.at(b, query, column + c) : Wide<T>(0);
  }
}

// o = sums / sum, lse = ln 2 max + ln sum; 0 and minus infinity where no key was seen
template <class T, int R>
__device__ void finish(const ForwardOperands<T>& x, std::int64_t b, int h, int first,
                       QueryRows<Wide<T>, R>& rows, const Wide<T>* sums) {
  using W = Wide<T>;
  const int width = x.part.width, lane = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  const std::int64_t column = std::int64_t{h} * width;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int query = first + y + side * r;
    const W sum = row_sum(rows.sum[r]);
    if (query >= x.part.queries) continue;
    const W inverse = sum == W(0) ? W(0) : W(1) / sum;
    for (int c = lane; c < width; c += side)
      x.o.put(b, query, column + c, sums[(y + side * r) * width + c] * inverse);
    if (lane == 0 && x.lse.data != nullptr)
      *x.lse.at(b, query, h) = sum == W(0)
                                   ? -std::numeric_limits<W>::infinity()
                                   : rows.most[r] * static_cast<W>(ln_2) + std::log(sum);
  }
}

// Probabilities of the queries from `query` on, by keys from `key` on, as dropout leaves
// them.
template <int R, class W>
__device__ void drop(const Geometry& part, std::int64_t b, int h, int query, int key,
                     W (&p)[R][per_thread]) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < per_thread; ++c)
      p[r][c] *= static_cast<W>(part.factor_of(b, h, query + side * r, key + side * c));
}

template <class T, int R, bool More>
__global__ void __launch_bounds__(threads, 1) forward_tile(ForwardOperands<T> x) {
  using W = Wide<T>;
  const Geometry& part = x.part;
  const int tiles_of_queries = (part.queries + R * side - 1) / (R * side);
  const int pair = static_cast<int>(blockIdx.x) / tiles_of_queries;
  const int from_last = static_cast<int>(blockIdx.x) % tiles_of_queries;
  const std::int64_t b = pair / part.heads;
  const int h = pair % part.heads, first = (tiles_of_queries - 1 - from_last) * R * side;
  const std::int64_t kv_column = std::int64_t{part.kv_head[h]} * part.width;
  const int lane = static_cast<int>(threadIdx.x) % side;
  const int y = static_cast<int>(threadIdx.x) / side;
  W* const buffer = dynamic_shared<W>();
  W* const p = buffer + buffer_elements(R * side);
  W* const sums = p + tile_elements(R * side);

  QueryRows<W, R> rows(part, b, first, y);
  resume<T, R>(x, b, h, first, rows, sums);
  const int queries = min(R * side, part.queries - first);
  const Operand<T> q{x.q.at(b, first, std::int64_t{h} * part.width), x.q.row, queries};
  int begin = 0;  // the same in all threads
  if (part.first != nullptr) {
    begin = part.keys;
#pragma unroll
    for (int r = 0; r < R; ++r) begin = min(begin, rows.begin[r]);
    begin = -block_max(-begin);
  }
  for (int key = begin / tile * tile; key < part.end(first + queries - 1); key += tile) {
    const int keys = min(tile, part.keys - key);
    W s[R][per_thread], shrink[R];
    multiply<R>(q, Operand<T>{x.k.at(b, key, kv_column), x.k.row, keys}, part.width,
                buffer, s);
    rows.template update<More>(static_cast<W>(part.factor), static_cast<W>(part.cap), key,
                               lane, s, shrink);
    if constexpr (More) drop<R>(part, b, h, first + y, key + lane, s);
    store<R>(s, p);
    accumulate<R>(p, Operand<T>{x.v.at(b, key, kv_column), x.v.row, keys}, part.width,
                  shrink, buffer, sums);
  }
  finish<T, R>(x, b, h, first, rows, sums);
}

}  // namespace

template <class T>
void forward_generic(Stream& stream, std::int64_t B,
                     const ForwardOperands<DeviceType<T>>& x) {
  using D = DeviceType<T>;
  const auto start = [&]<int R>() {
    const Grid grid{
        {extent(B * x.part.heads * divide_up(x.part.queries, R * side))},
        {threads},
        sizeof(Wide<D>) * static_cast<std::size_t>(shared_elements(R, x.part.width))};
    launch(stream, grid,
           x.part.cap > 0 || x.part.drops ? forward_tile<D, R, true>
                                          : forward_tile<D, R, false>,
           x);
  };
  with_rows<Wide<D>>(stream, "attention", x.part.width, shared_elements, start);
}

template void forward_generic<double>(Stream&, std::int64_t,
                                      const ForwardOperands<double>&);
template void forward_generic<float>(Stream&, std::int64_t,
                                     const ForwardOperands<float>&);
template void forward_generic<BFloat16>(Stream&, std::int64_t,
                                        const ForwardOperands<__nv_bfloat16>&);
template void forward_generic<Float16>(Stream&, std::int64_t,
                                       const ForwardOperands<__half>&);

}  // namespace trireme::kernels::cuda
