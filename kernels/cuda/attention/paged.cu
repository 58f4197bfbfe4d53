// Paged attention on a GPU: the cache's rows, plain arithmetic, and the merge of chunks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cuda_machine/shared.cuh>
#include <limits>

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/generic.cuh"
#include "kernels/cuda/attention/paged.cuh"
#include "kernels/cuda/attention/paged.hpp"
#include "kernels/cuda/codes/codes.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/low_precision/fp8_codes.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace paged;

// Element i of a tensor whose type is known when the kernel runs.
template <class W>
__device__ W read_element(const void* data, DType type, std::int64_t i) {
  switch (type) {
    case DType::f64: return static_cast<W>(static_cast<const double*>(data)[i]);
    case DType::f32: return static_cast<W>(static_cast<const float*>(data)[i]);
    case DType::bf16:
      return static_cast<W>(widen(static_cast<const __nv_bfloat16*>(data)[i]));
    case DType::f16: return static_cast<W>(widen(static_cast<const __half*>(data)[i]));
    case DType::e4m3:
      return static_cast<W>(e4m3_number(static_cast<const unsigned char*>(data)[i]));
    default: return static_cast<W>(static_cast<const signed char*>(data)[i]);
  }
}
template <class W>
__device__ void write_element(void* data, DType type, std::int64_t i, W x) {
  switch (type) {
    case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(x); break;
    case DType::f32: static_cast<float*>(data)[i] = static_cast<float>(x); break;
    case DType::bf16:
      static_cast<__nv_bfloat16*>(data)[i] = narrow<__nv_bfloat16>(x);
      break;
    default: static_cast<__half*>(data)[i] = narrow<__half>(x);
  }
}

// Rows of new keys or values and where they go.
template <class T>
struct Stored {
  SequenceRows<const T> x;
  void* data;
  float* scales;
  const std::int32_t* packed;
  std::int64_t T_rows;
  int G, L, K;
  DType type;

  // Where a head's part of a row goes, in rows of K elements.
  __device__ std::int64_t place(std::int64_t row, int head) const {
    const TextOfRow text = reinterpret_cast<const TextOfRow*>(packed)[row];
    const int position = text.past + static_cast<int>(row) - text.begin;
    return place_of(packed + text.table, position, head, G, L);
  }
};

constexpr int store_threads = 128;

// A block for each row; packs where both types are the same and rows are aligned.
template <class T, bool packs>
__global__ void __launch_bounds__(store_threads) store_numbers(Stored<T> of) {
  const std::int64_t row = blockIdx.x;
  const T* const from = of.x.at(0, row, 0);
  const int W = of.G * of.K;
  const auto to = [&](int c) { return of.place(row, c / of.K) * of.K + c % of.K; };
  if constexpr (packs) {
    constexpr int n = pack_elements<T>;
    for (int c = static_cast<int>(threadIdx.x) * n; c < W; c += store_threads * n)
      store_pack(static_cast<T*>(of.data) + to(c), load_pack(from + c));
  } else {
    for (int c = static_cast<int>(threadIdx.x); c < W; c += store_threads)
      write_element(of.data, of.type, to(c), widen(from[c]));
  }
}

// A warp for each row and head.
template <class T>
__global__ void __launch_bounds__(store_threads, 8) store_codes(Stored<T> of) {
  const std::int64_t index =
      (std::int64_t{blockIdx.x} * store_threads + threadIdx.x) / warp_size;
  if (index >= of.T_rows * of.G) return;
  const std::int64_t row = index / of.G;
  const int g = static_cast<int>(index % of.G), K = of.K;
  const std::int64_t place = of.place(row, g);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const T* const from = of.x.at(0, row, std::int64_t{g} * K);
  float most = 0;
  for (int c = lane; c < K; c += warp_size)
    most = fmaxf(most, fabsf(static_cast<float>(widen(from[c]))));
  most = warp_max(most);
  const float scale = most > 0 ? most / (of.type == DType::e4m3 ? 448.0f : 127.0f) : 1.0f;
  if (lane == 0) of.scales[place] = scale;
  auto* const codes = static_cast<unsigned char*>(of.data) + place * K;
  for (int c = lane; c < K; c += warp_size) {
    const float x = static_cast<float>(widen(from[c])) / scale;
    codes[c] = of.type == DType::e4m3
                   ? __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)
                   : static_cast<unsigned char>(static_cast<signed char>(rintf(x)));
  }
}

// Positions of a tile in the cache: a row's place is negative where nothing is looked at.
template <class W>
struct TileOfCache {
  const Cache& cache;
  const std::int64_t* places;
  int width, rows;

  __device__ W element(int r, int c) const {
    const std::int64_t place = places[r];
    if (place < 0) return 0;
    const W x = read_element<W>(cache.data, cache.type, place * width + c);
    return cache.scales == nullptr ? x : x * static_cast<W>(cache.scales[place]);
  }
};

// The queries of a task's pairs.
template <class T>
struct Queries {
  const Operands<T>& x;
  const Task& task;
  int rows;

  __device__ Wide<T> element(int r, int c) const {
    return widen(*x.q.at(0, task.row_of(r), std::int64_t{task.head_of(r)} * x.width + c));
  }
};

constexpr std::int64_t shared_elements(std::int64_t width) {
  return tiles::buffer_elements(pairs) + tiles::tile_elements(pairs) + pairs * width;
}

template <class T>
__global__ void __launch_bounds__(tiles::threads, 2) attend_tile(Operands<T> x) {
  using namespace tiles;
  using W = Wide<T>;
  const Task task(x);
  if (task.empty()) return;
  __shared__ std::int64_t places[tile];
  W* const buffer = dynamic_shared<W>();
  W* const p = buffer + buffer_elements(pairs);
  W* const sums = p + tile_elements(pairs);
  const int lane = static_cast<int>(threadIdx.x) % side;
  const int pair = static_cast<int>(threadIdx.x) / side;
  const bool inside = pair < task.count;
  const int row = task.row_of(inside ? pair : 0), head = task.head_of(inside ? pair : 0);
  SoftmaxRows<W, 1> rows{{-std::numeric_limits<W>::infinity()},
                         {0},
                         {inside ? x.first_of(row) : task.end},
                         {inside ? task.past + row + 1 : 0}};
  for (int c = lane; c < x.width; c += side) sums[pair * x.width + c] = 0;
  for (int at = task.begin / tile * tile; at < task.end; at += tile) {
    const int count = min(tile, task.end - at);
    __syncthreads();  // the last tile's places may still be read
    for (int r = static_cast<int>(threadIdx.x); r < count; r += threads)
      places[r] = at + r < task.begin ? -1 : task.place(at + r, x);
    W s[1][per_thread], shrink[1];
    multiply<1>(Queries<T>{x, task, task.count},
                TileOfCache<W>{x.keys, places, x.width, count}, x.width, buffer, s);
    rows.template update<true>(static_cast<W>(x.factor), static_cast<W>(x.cap), at, lane,
                               s, shrink);
    tiles::store<1>(s, p);
    accumulate<1>(p, TileOfCache<W>{x.values, places, x.width, count}, x.width, shrink,
                  buffer, sums);
  }
  const W sum = row_sum(rows.sum[0]);
  if (inside)
    x.put(row, head, task.in_chunk, rows.most[0], sum, lane, side,
          [&](int c) { return sums[pair * x.width + c]; });
}

constexpr int merge_threads = 128;

// A block for each row and head.
template <class T>
__global__ void __launch_bounds__(merge_threads) merge_chunks(Operands<T> x) {
  using W = Wide<T>;
  const int row = x.first_row + static_cast<int>(blockIdx.x) / x.heads;
  const int head = static_cast<int>(blockIdx.x) % x.heads;
  const TextOfRow text = x.text(row);
  const int first = x.first_of(row) / chunk,
            last = (text.past + row - text.begin) / chunk;
  W most = -std::numeric_limits<W>::infinity(), sum = 0;
  for (int i = first; i <= last; ++i) most = max(most, x.part(row, head, i)[x.width]);
  const auto weight = [&](int i) {
    return tiles::power_of_2(x.part(row, head, i)[x.width] - most);
  };
  for (int i = first; i <= last; ++i)
    sum += weight(i) * x.part(row, head, i)[x.width + 1];
  for (int c = static_cast<int>(threadIdx.x); c < x.width; c += merge_threads) {
    W o = 0;
    for (int i = first; i <= last; ++i) o += weight(i) * x.part(row, head, i)[c];
    *x.o.at(0, row, std::int64_t{head} * x.width + c) = narrow<T>(o / sum);
  }
  if (threadIdx.x == 0) *x.lse.at(0, row, head) = most * static_cast<W>(ln_2) + log(sum);
}

Cache cache_of(const TensorView& blocks, const TensorView& scales) {
  return {blocks.raw(), scales.empty() ? nullptr : scales.data<float>(), blocks.dtype()};
}

bool on_tensor_cores(const AttentionShape& shape, const TensorView& q,
                     const PagedCache& cache, const TensorView& o) {
  const TensorView& values = cache.values_are_keys() ? cache.keys : cache.values;
  return shape.scale > 0 && shape.cap == 0 && cache.keys.dtype() == q.dtype() &&
         attention_on_tensor_cores(shape.head_width,
                                   std::array{q, cache.keys, values, o});
}

// f(rows, chunks) for ranges of rows whose parts take no more than `bytes`, unless they
// are one piece of 16. Blocks do rows of such a piece alone.
template <class F>
void for_ranges_of_rows(std::span<const PagedText> texts, std::int64_t bytes,
                        std::int64_t bytes_of_chunk, const F& f) {
  Range rows{};
  std::int64_t chunks = 0;
  const auto finish = [&] {
    if (rows.count() > 0) f(rows, chunks);
    rows.begin = rows.end;
    chunks = 0;
  };
  for (const PagedText& text : texts)
    for (std::int64_t begin = text.rows.begin; begin < text.rows.end; begin += pairs) {
      const std::int64_t end = std::min<std::int64_t>(begin + pairs, text.rows.end);
      const std::int64_t more = divide_up(text.past + end - text.rows.begin, chunk);
      const std::int64_t all = std::max(chunks, more) * (end - rows.begin);
      if (begin != rows.end || all * bytes_of_chunk > bytes) finish();
      if (rows.count() == 0) rows.begin = begin;
      rows.end = end;
      chunks = std::max(chunks, more);
    }
  finish();
}

template <class T>
void attend(Stream& stream, const AttentionShape& shape, std::span<const PagedText> texts,
            bool by_tensor_cores, int groups_of_heads, Operands<DeviceType<T>> x) {
  using D = DeviceType<T>;
  using W = Wide<D>;
  const std::int64_t elements = shape.heads * (shape.head_width + 2);
  for_ranges_of_rows(
      texts, most_bytes, elements * static_cast<std::int64_t>(sizeof(W)),
      [&](const Range& rows, std::int64_t chunks) {
        x.first_row = static_cast<int>(rows.begin);
        x.chunks = static_cast<int>(chunks);
        x.parts = chunks == 1 ? nullptr
                              : workspace(stream, dtype_of<Accumulator<T>>,
                                          {rows.count() * chunks * elements})
                                    .template data<W>();
        const dim3 blocks(extent(rows.count()), extent(shape.kv_heads * groups_of_heads),
                          extent(chunks));
        if constexpr (sizeof(D) == 2) {
          if (by_tensor_cores) attend_tensor_core<T>(stream, blocks, x);
        }
        if (!by_tensor_cores)
          launch(stream,
                 Grid{blocks,
                      {tiles::threads},
                      sizeof(W) *
                          static_cast<std::size_t>(shared_elements(shape.head_width))},
                 attend_tile<D>, x);
        if (chunks > 1)
          launch(stream, Grid{{extent(rows.count() * shape.heads)}, {merge_threads}},
                 merge_chunks<D>, x);
      });
}

}  // namespace

void store_in_blocks(Stream& stream, std::span<const PagedText> /*texts*/,
                     const TensorView& x_TW, const TensorView& blocks_NGLK,
                     const TensorView& scales_NGL, const TensorView& packed) {
  if (x_TW.elements() == 0) return;
  visit_floating(x_TW.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    Stored<T> of{{elements_of<H>(x_TW), x_TW.stride(0)},
                 blocks_NGLK.raw(),
                 scales_NGL.empty() ? nullptr : scales_NGL.data<float>(),
                 packed.data<std::int32_t>(),
                 x_TW.dim(0),
                 static_cast<int>(blocks_NGLK.dim(1)),
                 static_cast<int>(blocks_NGLK.dim(2)),
                 static_cast<int>(blocks_NGLK.dim(3)),
                 blocks_NGLK.dtype()};
    if (!scales_NGL.empty()) {
      const std::int64_t threads = of.T_rows * of.G * warp_size;
      return launch(stream,
                    Grid{{extent(divide_up(threads, store_threads))}, {store_threads}},
                    store_codes<T>, of);
    }
    const bool packs =
        blocks_NGLK.dtype() == x_TW.dtype() && is_packed(x_TW) && is_packed(blocks_NGLK);
    launch(stream, Grid{{extent(of.T_rows)}, {store_threads}},
           packs ? store_numbers<T, true> : store_numbers<T, false>, of);
  });
}

void attention_paged(Stream& stream, const AttentionShape& shape,
                     std::span<const PagedText> texts, const TensorView& q_THK,
                     const PagedCache& cache, const TensorView& o_THK,
                     const TensorView& lse_TH, const TensorView& packed) {
  const std::int64_t G = shape.kv_heads;
  if (q_THK.elements() == 0) return;
  require(shape.heads <= Geometry::most_heads, Status::resources,
          "attention of {} heads: a GPU computes at most {} at once; use more tensor "
          "parallelism",
          shape.heads, Geometry::most_heads);
  require(std::is_sorted(shape.kv_head.begin(), shape.kv_head.end()),
          "heads that share keys are not neighbours");
  std::int64_t most = 0;
  std::int16_t first_head[Geometry::most_heads + 1] = {};
  for (std::int64_t g = 0; g <= G; ++g) {
    const auto at = std::lower_bound(shape.kv_head.begin(), shape.kv_head.end(), g) -
                    shape.kv_head.begin();
    first_head[g] = static_cast<std::int16_t>(at);
    if (g > 0) most = std::max<std::int64_t>(most, at - first_head[g - 1]);
  }
  const bool by_tensor_cores = on_tensor_cores(shape, q_THK, cache, o_THK);
  const auto elements = static_cast<std::int64_t>(size_of(accumulator_of(q_THK.dtype())));
  require(by_tensor_cores ||
              shared_elements(shape.head_width) * elements <= shared_limit(stream),
          Status::resources,
          "paged attention of heads of width {} needs {} bytes of shared memory, but a "
          "block of this GPU has {}",
          shape.head_width, shared_elements(shape.head_width) * elements,
          shared_limit(stream));
  visit_floating(q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const bool same = cache.values_are_keys();
    Operands<DeviceType<T>> x{};
    x.q = {elements_of<T>(q_THK), q_THK.stride(0), 0};
    x.o = {elements_of<T>(o_THK), o_THK.stride(0), 0};
    x.lse = {elements_of<A>(lse_TH), lse_TH.stride(0), 0};
    x.keys = cache_of(cache.keys, cache.key_scales);
    x.values = same ? x.keys : cache_of(cache.values, cache.value_scales);
    x.packed = packed.data<std::int32_t>();
    x.first = shape.first_T.empty() ? nullptr : shape.first_T.data<std::int32_t>();
    x.width = static_cast<int>(shape.head_width);
    x.heads = static_cast<int>(shape.heads);
    x.kv_heads = static_cast<int>(G);
    x.L = static_cast<int>(cache.keys.dim(2));
    x.factor = shape.scale * log2_e;
    x.cap = shape.cap * log2_e;
    std::copy_n(first_head, G + 1, x.first_head);
    attend<T>(stream, shape, texts, by_tensor_cores,
              static_cast<int>(divide_up(most, pairs)), x);
  });
}

}  // namespace trireme::kernels::cuda
