// Attention on CUDA devices: the choice of a kernel, and the small kernels around it.
// SPDX-License-Identifier: Apache-2.0
// The choice is between tensor cores and plain arithmetic.
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
#include <algorithm>
#include <array>

#include "base/cuda_devices.hpp"
#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/generic.cuh"
#include "kernels/cuda/attention/library.hpp"
#include "kernels/cuda/attention/one_pass.cuh"
#include "kernels/cuda/attention/operands.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/workspace.hpp"

namespace trireme::kernels::cuda {
namespace {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

constexpr int row_lanes = 8;  // threads that share a row of one head
constexpr int delta_threads = 128;

// delta[b, t, h] = <do, o> over a head's width; N elements at a time. A sequence's rows
// are numbered in 32 bits: the division of 64 is a call, around which registers are
// spilled.
template <class T, int N>
__global__ void __launch_bounds__(delta_threads)
    row_products(BackwardOperands<T> x, std::int64_t B) {
  const std::uint32_t index =
      blockIdx.x * (delta_threads / row_lanes) + threadIdx.x / row_lanes;
  const auto heads = static_cast<std::uint32_t>(x.part.heads);
  const auto queries = static_cast<std::uint32_t>(x.part.queries);
  const int lane = static_cast<int>(threadIdx.x) % row_lanes;
  const bool inside = index < queries * heads;  // all lanes take part in the sum below
  const std::uint32_t t = inside ? index / heads : 0, h = inside ? index - t * heads : 0;
  struct alignas(N * sizeof(T)) Elements {
    T x[N];
  };
  for (std::int64_t b = blockIdx.y; b < B; b += gridDim.y) {
    const T* const d_o = x.d_o.at(b, t, std::int64_t{h} * x.part.width);
    const T* const o = x.o.at(b, t, std::int64_t{h} * x.part.width);
    Wide<T> sum = 0;
    for (int i = lane * N; i < x.part.width; i += row_lanes * N) {
      const auto left = *reinterpret_cast<const Elements*>(d_o + i);
      const auto right = *reinterpret_cast<const Elements*>(o + i);
#pragma unroll
      for (int j = 0; j < N; ++j) sum += widen(left.x[j]) * widen(right.x[j]);
    }
#pragma unroll
    for (int distance = row_lanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (inside && lane == 0) *x.delta.at(b, t, h) = sum;
  }
}

template <class T>
void start_row_products(Stream& stream, std::int64_t B,
                        const BackwardOperands<DeviceType<T>>& x, bool packed) {
  using D = DeviceType<T>;
  constexpr std::int64_t most_rows = std::int64_t{1} << 32, most_in_y = 1024;
  const std::int64_t rows = std::int64_t{x.part.queries} * x.part.heads;
  require(rows < most_rows,
          "attention of {} queries and {} heads: a GPU's part has fewer than {} pairs",
          x.part.queries, x.part.heads, most_rows);
  const Grid grid{{extent(divide_up(rows * row_lanes, delta_threads)),
                   extent(std::min(B, most_in_y))},
                  {delta_threads}};
  launch(stream, grid, packed ? row_products<D, pack_elements<D>> : row_products<D, 1>, x,
         B);
}

constexpr int most_chunks = 64;
struct Chunks {
  int count = 0;
  std::int64_t begin[most_chunks] = {}, end[most_chunks] = {};
};

__global__ void count_below(const std::int32_t* positions, std::int64_t n, Chunks chunks,
                            std::int32_t* counts) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; t < n;
       t += stride) {
    const std::int64_t position = positions[t];
    std::int64_t count = 0;
    for (int i = 0; i < chunks.count; ++i) {
      const std::int64_t end = position < chunks.end[i] ? position : chunks.end[i];
      count += end > chunks.begin[i] ? end - chunks.begin[i] : 0;
    }
    counts[t] = static_cast<std::int32_t>(count);
  }
}

Grid grid_of_positions(const Stream& stream, std::int64_t n) {
  constexpr int threads = 256;
  return {{striding_blocks(stream, n, threads)}, {threads}};
}

__global__ void starts_of_windows(const std::int32_t* positions, std::int64_t n,
                                  std::int64_t window, std::int32_t* first) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; t < n;
       t += stride) {
    const std::int64_t start = positions[t] - window + 1;
    first[t] = static_cast<std::int32_t>(start > 0 ? start : 0);
  }
}

bool backward_on_tensor_cores(const AttentionShape& shape, const AttentionTensors& x) {
  return shape.scale > 0 && shape.cap == 0 && shape.dropout.rate == 0 &&
         attention_on_tensor_cores(shape.head_width,
                                   std::array{x.q, x.k, x.v, x.d_o, x.dq, x.dk, x.dv});
}

// Heads that gain: of narrower ones the prediction leaves less than dq's traffic may cost
// (docs/decisions/attention.md).
constexpr std::int64_t least_width_in_one_pass = 96;

bool in_one_pass(const AttentionShape& shape, const AttentionTensors& x,
                 std::int64_t shared_bytes) {
  const AttentionBackward wanted = attention_backward_form();
  if (wanted == AttentionBackward::two_passes || !backward_on_tensor_cores(shape, x))
    return false;
  const bool fits = one_pass_fits(shape.head_width, shared_bytes);
  if (wanted == AttentionBackward::automatic)
    return fits && shape.head_width >= least_width_in_one_pass;
  require(fits, Status::resources,
          "attention backward of width {} in one pass needs more shared memory than the "
          "{} bytes that a block of this GPU has; use AttentionBackward::automatic",
          shape.head_width, shared_bytes);
  return true;
}

// Of the sums over rows of do * o: a multiple of 256.
std::int64_t delta_bytes(const AttentionShape& shape, const AttentionPart& part,
                         DType sums) {
  constexpr std::int64_t unit = 256;
  return divide_up(shape.batch * part.queries.count() * shape.heads *
                       static_cast<std::int64_t>(size_of(sums)),
                   unit) *
         unit;
}

}  // namespace

bool attention_on_tensor_cores(std::int64_t width, std::span<const TensorView> tensors) {
  return (width == 32 || width == 64 || width == 96 || width == 128) &&
         (tensors[0].dtype() == DType::bf16 || tensors[0].dtype() == DType::f16) &&
         std::all_of(tensors.begin(), tensors.end(), is_packed);
}

void attention(Stream& stream, const AttentionShape& shape, const AttentionPart& part,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH) {
  if (shape.batch * shape.heads * part.queries.count() == 0) return;
  if (attention_by_library(stream, shape, part, {q_THK, k_TGK, v_TGK, o_THK, lse_TH}))
    return;
  const std::int64_t S = shape.sequence;
  const std::int64_t query = part.queries.begin, key = part.keys.begin;
  visit_floating(q_THK.dtype(), [&]<class T>(T) {
    ForwardOperands<DeviceType<T>> x;
    x.part = geometry_of(shape, part);
    x.q = rows_of<T>(q_THK, S, query);
    x.k = rows_of<T>(k_TGK, S, key);
    x.v = rows_of<T>(v_TGK, S, key);
    x.o = target_of<T>(o_THK, S, query, false);  // merging writes the whole sum
    x.lse = rows_of<Accumulator<T>>(lse_TH, S, query);
    x.merged = !part.new_queries;
    require(!x.merged || x.o.sums.data != nullptr, "attention is merged into {}",
            name_of(o_THK.dtype()));
    if constexpr (is_half<T>) {
      // Maxima are taken of scores before the scale.
      if (shape.scale > 0 && shape.cap == 0 && shape.dropout.rate == 0 &&
          attention_on_tensor_cores(shape.head_width,
                                    std::array{q_THK, k_TGK, v_TGK, o_THK}))
        return forward_tensor_core<T>(stream, shape.batch, x);
    }
    forward_generic<T>(stream, shape.batch, x);
  });
}

std::int64_t attention_backward_workspace(const AttentionShape& shape,
                                          const AttentionPart& part,
                                          const AttentionTensors& tensors) {
  constexpr std::int64_t today = 227 << 10;
  const bool here = count_cuda_devices() > 0;
  const bool once = in_one_pass(shape, tensors, here ? shared_limit(0) : today);
  return delta_bytes(shape, part, tensors.lse.dtype()) +
         (once ? one_pass_bytes(shape.batch, shape.heads, part.queries.count(),
                                shape.head_width)
               : 0);
}

void attention_backward(Stream& stream, const AttentionShape& shape,
                        const AttentionPart& part, const TensorView& do_THK,
                        const TensorView& q_THK, const TensorView& k_TGK,
                        const TensorView& v_TGK, const TensorView& o_THK,
                        const TensorView& lse_TH, const TensorView& dq_THK,
                        const TensorView& dk_TGK, const TensorView& dv_TGK) {
  if (shape.batch * part.queries.count() == 0) return;
  const AttentionTensors tensors{q_THK,  k_TGK,  v_TGK,  o_THK, lse_TH,
                                 do_THK, dq_THK, dk_TGK, dv_TGK};
  if (attention_by_library(stream, shape, part, tensors)) return;
  const std::int64_t S = shape.sequence, Q = part.queries.count();
  const std::int64_t query = part.queries.begin, key = part.keys.begin;
  visit_floating(q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    BackwardOperands<DeviceType<T>> x;
    x.part = geometry_of(shape, part);
    x.d_o = rows_of<T>(do_THK, S, query);
    x.q = rows_of<T>(q_THK, S, query);
    x.k = rows_of<T>(k_TGK, S, key);
    x.v = rows_of<T>(v_TGK, S, key);
    x.o = rows_of<T>(o_THK, S, query);
    x.lse = rows_of<A>(lse_TH, S, query);
    x.dq = target_of<T>(dq_THK, S, query, !part.new_queries);
    x.dk = target_of<T>(dk_TGK, S, key, !part.new_keys);
    x.dv = target_of<T>(dv_TGK, S, key, !part.new_keys);
    const bool once = in_one_pass(shape, tensors, shared_limit(stream));
    const std::int64_t of_delta = delta_bytes(shape, part, dtype_of<A>);
    const std::int64_t of_sums =
        once ? one_pass_bytes(shape.batch, shape.heads, Q, shape.head_width) : 0;
    auto* const memory =
        static_cast<std::byte*>(workspace(stream, DType::u8, {of_delta + of_sums}).raw());
    if (shape.heads > 0) {
      x.delta = rows_of<A>(TensorView(memory, dtype_of<A>, {shape.batch * Q, shape.heads},
                                      stream.device()),
                           Q, 0);
      const bool packed = is_packed(do_THK) && is_packed(o_THK) &&
                          shape.head_width % pack_elements<DeviceType<T>> == 0;
      start_row_products<T>(stream, shape.batch, x, packed);
    }
    if constexpr (is_half<T>) {
      if (once) return backward_one_pass<T>(stream, shape.batch, x, memory + of_delta);
      if (backward_on_tensor_cores(shape, tensors))
        return backward_tensor_core<T>(stream, shape.batch, x);
    }
    backward_generic<T>(stream, shape.batch, x);
  });
}

void count_positions_below(Stream& stream, const TensorView& positions_T,
                           std::span<const Range> chunks, const TensorView& counts_T) {
  if (positions_T.elements() == 0) return;
  require(chunks.size() <= most_chunks,
          "count_positions_below: {} chunks, but a GPU counts in at most {}",
          chunks.size(), most_chunks);
  Chunks list;
  for (const Range& chunk : chunks) {
    list.begin[list.count] = chunk.begin;
    list.end[list.count++] = chunk.end;
  }
  const std::int64_t n = positions_T.elements();
  launch(stream, grid_of_positions(stream, n), count_below,
         positions_T.data<std::int32_t>(), n, list, counts_T.data<std::int32_t>());
}

void window_starts(Stream& stream, const TensorView& positions_T, std::int64_t window,
                   const TensorView& first_T) {
  const std::int64_t n = positions_T.elements();
  if (n == 0) return;
  launch(stream, grid_of_positions(stream, n), starts_of_windows,
         positions_T.data<std::int32_t>(), n, window, first_T.data<std::int32_t>());
}

}  // namespace trireme::kernels::cuda
