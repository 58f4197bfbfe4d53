// Paged attention on tensor cores, in bf16 and fp16.
// SPDX-License-Identifier: Apache-2.0
// A block reads 64 positions at a time, ahead of their use; each of its warps does 16 of
// them for all pairs of the block. What warps come to is merged in their order.
#include <cuda_machine/shared.cuh>
#include <limits>

#include "kernels/cuda/attention/fragments.cuh"
#include "kernels/cuda/attention/paged.cuh"
#include "kernels/cuda/attention/tiles.cuh"
#include "kernels/cuda/common/launch.cuh"

namespace trireme::kernels::cuda::paged {
namespace {

using namespace fragments;

constexpr int tile = 64;  // positions
static_assert(chunk % tile == 0 && tile == 16 * warps);

// Tiles in shared memory: as many bytes are on their way for wide heads as for narrow
// ones.
template <int K>
constexpr int stages = K > 64 ? 2 : 3;
template <int K>
constexpr std::size_t shared_bytes() {
  return std::size_t{2} * K * (pairs + 2 * stages<K> * tile);
}

// Starts to copy Count rows, whose first elements row_at(r) tells; nullptr: zeros.
template <int K, int Count, class T, class RowAt>
__device__ inline void load_scattered(const T* any, T* to, const RowAt& row_at) {
  constexpr int packs = K / 8, Step = threads / packs;
  const int thread = thread_index();
  const int pack = thread % packs;
  if (thread / packs >= Step) return;
#pragma unroll 1
  for (int r = thread / packs; r < Count; r += Step) {
    const T* const from = row_at(r);
    cp_async_16(to + r * K + 8 * (pack ^ swizzle<K>(r)),
                from == nullptr ? any : from + 8 * pack, from != nullptr);
  }
}

// What the warps of a block came to, in shared memory.
template <int K>
struct Merged {
  float* sums;  // [warps][pairs][K]
  float* rows;  // [warps][pairs][2]: maximum in units of log 2, weight

  __device__ explicit Merged(float* shared)
      : sums(shared), rows(shared + warps * pairs * K) {}

  __device__ void put(const Softmax<1>& softmax, float factor,
                      const float (&o)[1][K / 8][4]) const {
    const int warp = warp_index(), column = lane_index() % 4 * 2;
    for_rows<1>(0, [&](int, int i, int pair) {
      const float sum = quad_sum(softmax.sum[0][i]);
      float* const to = sums + (warp * pairs + pair) * K + column;
#pragma unroll
      for (int c = 0; c < K / 8; ++c) {
        to[8 * c] = o[0][c][2 * i];
        to[8 * c + 1] = o[0][c][2 * i + 1];
      }
      if (column == 0) {
        rows[(warp * pairs + pair) * 2] = softmax.most[0][i] * factor;
        rows[(warp * pairs + pair) * 2 + 1] = sum;
      }
    });
  }

  // Eight threads a pair.
  template <class T>
  __device__ void finish(const Operands<T>& x, const Task& task) const {
    for (int i = thread_index() / 8; i < task.count; i += threads / 8) {
      const auto most_of = [&](int w) { return rows[(w * pairs + i) * 2]; };
      float most = -std::numeric_limits<float>::infinity(), sum = 0, weights[warps];
      for (int w = 0; w < warps; ++w) most = fmaxf(most, most_of(w));
      const float from = isinf(most) ? 0.0f : most;  // a pair may see none of a chunk
#pragma unroll
      for (int w = 0; w < warps; ++w) {
        weights[w] = tiles::power_of_2(most_of(w) - from);
        sum += weights[w] * rows[(w * pairs + i) * 2 + 1];
      }
      x.put(task.row_of(i), task.head_of(i), task.in_chunk, most, sum, thread_index() % 8,
            8, [&](int c) {
              float all = 0;
#pragma unroll
              for (int w = 0; w < warps; ++w)
                all += weights[w] * sums[(w * pairs + i) * K + c];
              return all;
            });
    }
  }
};

// What a block has in shared memory: its queries, and stages of keys and values.
template <class T, int K>
struct Tiles {
  const Operands<T>& x;
  const Task& task;
  T* of_q;   // [pairs][K]
  T* of_kv;  // [stages][k, v][tile][K]

  __device__ const T* row_in(const Cache& cache, int position) const {
    if (position < task.begin || position >= task.end) return nullptr;
    return static_cast<const T*>(cache.data) + task.place(position, x) * K;
  }
  __device__ T* keys(int stage) const { return of_kv + stage * 2 * tile * K; }
  // Begins to copy the positions from `at` on, if there are some, and the queries.
  __device__ void start(int at, int stage) const {
    if (at >= task.end) return;
    const Cache caches[2] = {x.keys, x.values};
#pragma unroll
    for (int i = 0; i < 2; ++i)
      load_scattered<K, tile>(static_cast<const T*>(caches[i].data),
                              keys(stage) + i * tile * K,
                              [&](int r) { return row_in(caches[i], at + r); });
  }
  __device__ void start_queries() const {
    load_scattered<K, pairs>(x.q.data, of_q, [&](int pair) -> const T* {
      if (pair >= task.count) return nullptr;
      return x.q.at(0, task.row_of(pair), std::int64_t{task.head_of(pair)} * K);
    });
  }
};

// Scores of positions that a pair does not see become minus infinity; the warp's first
// position is `first`.
__device__ inline void hide_unseen(const int (&begins)[2], const int (&ends)[2],
                                   int first, float (&s)[1][2][4]) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int position = first + 8 * n + lane_index() % 4 * 2 + j % 2;
      if (position < begins[j / 2] || position >= ends[j / 2])
        s[0][n][j] = -std::numeric_limits<float>::infinity();
    }
}

template <class T, int K>
__global__ void __launch_bounds__(threads) attend_fragments(Operands<T> x) {
  const Task task(x);
  if (task.empty()) return;
  T* const shared = dynamic_shared<T>();
  const Tiles<T, K> tiles{x, task, shared, shared + pairs * K};
  tiles.start_queries();
  int at = task.begin / tile * tile;
  for (int i = 0; i + 1 < stages<K>; ++i) {
    tiles.start(at + i * tile, i);
    cp_async_commit();  // of nothing, if there is no tile: groups are counted
  }
  constexpr float never = -std::numeric_limits<float>::infinity();
  int begins[2], ends[2];  // of the pairs of this lane
  for_rows<1>(0, [&](int, int i, int pair) {
    const bool inside = pair < task.count;
    const int row = task.row_of(inside ? pair : 0);
    begins[i] = inside ? x.first_of(row) : task.end;
    ends[i] = inside ? task.past + row + 1 : 0;
  });
  Softmax<1> softmax{{{never, never}}, {{0, 0}}};
  float o[1][K / 8][4] = {};
  const int of_warp = 16 * warp_index();
  for (int stage = 0; at < task.end; at += tile, stage = (stage + 1) % stages<K>) {
    cp_async_wait<stages<K> - 2>();
    __syncthreads();  // the tile is there, and all are done with the one before
    constexpr int ahead = stages<K> - 1;
    tiles.start(at + ahead * tile, (stage + ahead) % stages<K>);
    cp_async_commit();
    const T* const of_k = tiles.keys(stage) + of_warp * K;
    float s[1][2][4];
    multiply_rows<K>(tiles.of_q, 0, of_k, s);
    hide_unseen(begins, ends, at + of_warp, s);
    softmax.update(static_cast<float>(x.factor), s, o);
    add_weighted<K>(s, of_k + tile * K, o);
  }
  cp_async_wait<0>();
  __syncthreads();  // all are done with the tiles, whose place results take
  const Merged<K> merged(reinterpret_cast<float*>(tiles.of_kv));
  merged.put(softmax, static_cast<float>(x.factor), o);
  __syncthreads();
  merged.finish(x, task);
}

}  // namespace

template <class T>
void attend_tensor_core(Stream& stream, const dim3& blocks,
                        const Operands<DeviceType<T>>& x) {
  with_width(x.width, [&]<int K>() {
    static_assert(shared_bytes<K>() >=
                  sizeof(float) * warps * pairs * (K + 2) + 2 * pairs * K);
    launch(stream, Grid{blocks, {threads}, shared_bytes<K>()},
           attend_fragments<DeviceType<T>, K>, x);
  });
}

template void attend_tensor_core<BFloat16>(Stream&, const dim3&,
                                           const Operands<__nv_bfloat16>&);
template void attend_tensor_core<Float16>(Stream&, const dim3&, const Operands<__half>&);

}  // namespace trireme::kernels::cuda::paged
