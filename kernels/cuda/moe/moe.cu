// Rows to their experts and back on a GPU (T tokens, K choices, N and R rows, D width).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/cuts.cuh"
#include "kernels/cuda/moe/choices.cuh"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/moe.hpp"

namespace trireme::kernels::cuda {
namespace {

// The row of this thread in a grid of blocks of threads_for_rows(), and the rows of a
// grid.
__device__ inline std::int64_t first_row() {
  return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}
__device__ inline std::int64_t rows_of_grid() {
  return std::int64_t{gridDim.x} * blockDim.y;
}

Grid grid_of_rows(const Stream& stream, std::int64_t rows, std::int64_t width) {
  const dim3 threads = threads_for_rows(width);
  return {dim3(striding_blocks(stream, rows, threads.y)), threads};
}

enum class Indexed : bool { source, target };

// Rows of `width` units of memory, moved as they are.
template <class Unit, Indexed indexed>
__global__ void move_kernel(Rows<Unit> x, const std::int32_t* index, std::int64_t rows,
                            std::int64_t width, Rows<Unit> y) {
  for (std::int64_t r = first_row(); r < rows; r += rows_of_grid()) {
    const Unit* const from = x[indexed == Indexed::source ? index[r] : r];
    Unit* const to = y[indexed == Indexed::target ? index[r] : r];
#pragma unroll 4
    for (std::int64_t d = threadIdx.x; d < width; d += blockDim.x) to[d] = from[d];
  }
}

// Largest power of two, at most 16, of which the start, rows and width of a matrix are
// multiples in bytes.
std::size_t alignment_of(const TensorView& x) {
  const std::size_t element = size_of(x.dtype());
  const auto all = reinterpret_cast<std::uintptr_t>(x.raw()) |
                   static_cast<std::size_t>(x.stride(0)) * element |
                   static_cast<std::size_t>(x.dim(1)) * element | 16u;
  return all & (~all + 1);
}

template <Indexed indexed>
void move_rows(Stream& stream, const TensorView& x, const TensorView& index_R,
               const TensorView& y) {
  const std::int64_t rows = index_R.dim(0), width = x.dim(1);
  if (rows == 0 || width == 0) return;
  const auto move = [&]<class Unit>(Unit) {
    const auto per_unit = static_cast<std::int64_t>(sizeof(Unit) / size_of(x.dtype()));
    const auto units = [&](const TensorView& of) {
      return Rows<Unit>{static_cast<Unit*>(of.raw()), of.stride(0) / per_unit};
    };
    launch(stream, grid_of_rows(stream, rows, width / per_unit),
           move_kernel<Unit, indexed>, units(x), index_R.data<std::int32_t>(), rows,
           width / per_unit, units(y));
  };
  switch (std::min(alignment_of(x), alignment_of(y))) {
    case 16: return move(Pack<std::uint32_t>{});
    case 8: return move(std::uint64_t{});
    case 4: return move(std::uint32_t{});
    default: return move(std::uint16_t{});
  }
}

// Sums are kept in the accumulator type and rounded once. n elements a thread.
template <class T, int n>
__global__ void combine_kernel(Rows<T> rows, const std::int32_t* row_TK, std::int64_t K,
                               Rows<Wide<T>> weights, bool accumulate,
                               std::int64_t tokens, std::int64_t groups, Rows<T> y) {
  for (std::int64_t t = first_row(); t < tokens; t += rows_of_grid())
    for (std::int64_t g = threadIdx.x; g < groups; g += blockDim.x) {
      Wide<T> sum[n] = {};
      T* const to = y[t] + g * n;
      if (accumulate) {
        const auto before = load_group<n>(to);
#pragma unroll
        for (int i = 0; i < n; ++i) sum[i] = widen(before.x[i]);
      }
#pragma unroll 4
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t r = row_TK != nullptr ? row_TK[t * K + k] : t;
        if (r < 0) continue;
        const Wide<T> w = weights.data != nullptr ? weights[t][k] : Wide<T>(1);
        const auto x = load_group<n>(rows[r] + g * n);
#pragma unroll
        for (int i = 0; i < n; ++i) sum[i] += w * widen(x.x[i]);
      }
      Group<T, n> out;
#pragma unroll
      for (int i = 0; i < n; ++i) out.x[i] = narrow<T>(sum[i]);
      store_group(to, out);
    }
}

// A warp for each (token, choice); those of one token are neighbours and share dy in the
// first-level cache.
template <class T, int n>
__global__ void combine_backward_kernel(Rows<T> dy, Rows<T> rows,
                                        const std::int32_t* row_TK, std::int64_t tokens,
                                        std::int64_t K, std::int64_t groups,
                                        Rows<Wide<T>> weights, Rows<T> drows,
                                        Rows<Wide<T>> dweights) {
  const int warps = static_cast<int>(blockDim.x) / warp_size, lane = lane_of_thread();
  const std::int64_t stride = std::int64_t{gridDim.x} * warps;
  for (std::int64_t i = std::int64_t{blockIdx.x} * warps + warp_of_thread();
       i < tokens * K; i += stride) {
    const std::int64_t t = i / K, k = i % K;
    const std::int64_t r = row_TK != nullptr ? row_TK[i] : t;
    Wide<T> dot = 0;
    if (r >= 0) {
      const Wide<T> w = weights[t][k];
#pragma unroll 2
      for (std::int64_t g = lane; g < groups; g += warp_size) {
        const auto from = load_group<n>(dy[t] + g * n);
        const auto x = load_group<n>(rows[r] + g * n);
        Group<T, n> to;
#pragma unroll
        for (int j = 0; j < n; ++j) {
          dot += widen(from.x[j]) * widen(x.x[j]);
          to.x[j] = narrow<T>(w * widen(from.x[j]));
        }
        store_group(drows[r] + g * n, to);
      }
    }
    dot = warp_sum(dot);
    if (lane == 0) dweights[t][k] = dot;
  }
}

// Null where each token has a row of its own, and one choice.
const std::int32_t* places_of(const TensorView& row_TK) {
  return row_TK.empty() ? nullptr : row_TK.data<std::int32_t>();
}
std::int64_t choices_of_token(const TensorView& row_TK) {
  return row_TK.empty() ? 1 : row_TK.dim(1);
}

// Calls f(std::integral_constant<int, n>{}) with the elements that one access moves.
template <class T, class F>
void with_pack(bool packed, const F& f) {
  if (packed)
    f(std::integral_constant<int, pack_elements<T>>{});
  else
    f(std::integral_constant<int, 1>{});
}

}  // namespace

void gather_rows(Stream& stream, const TensorView& x_TD, const TensorView& index_R,
                 const TensorView& y_RD) {
  move_rows<Indexed::source>(stream, x_TD, index_R, y_RD);
}

void scatter_rows(Stream& stream, const TensorView& x_RD, const TensorView& index_R,
                  const TensorView& y_RD) {
  move_rows<Indexed::target>(stream, x_RD, index_R, y_RD);
}

void combine_rows(Stream& stream, const TensorView& rows_ND, const TensorView& row_TK,
                  const TensorView& weights_TK, Accumulate accumulate,
                  const TensorView& y_TD) {
  const std::int64_t T = y_TD.dim(0), D = y_TD.dim(1);
  if (T == 0 || D == 0) return;
  visit_floating(y_TD.dtype(), [&]<class Element>(Element) {
    using X = DeviceType<Element>;
    with_pack<X>(is_packed(rows_ND) && is_packed(y_TD), [&](auto n) {
      const std::int64_t groups = D / n;
      launch(stream, grid_of_rows(stream, T, groups), combine_kernel<X, n>,
             rows_of<Element>(rows_ND), places_of(row_TK), choices_of_token(row_TK),
             rows_of<Wide<X>>(weights_TK), accumulate == Accumulate::yes, T, groups,
             rows_of<Element>(y_TD));
    });
  });
}

void combine_rows_backward(Stream& stream, const TensorView& dy_TD,
                           const TensorView& rows_ND, const TensorView& row_TK,
                           const TensorView& weights_TK, const TensorView& drows_ND,
                           const TensorView& dweights_TK) {
  const std::int64_t T = dy_TD.dim(0), K = choices_of_token(row_TK), D = dy_TD.dim(1);
  if (T * K == 0) return;
  constexpr unsigned warps = 8;
  visit_floating(dy_TD.dtype(), [&]<class Element>(Element) {
    using X = DeviceType<Element>;
    const bool packed = is_packed(dy_TD) && is_packed(rows_ND) && is_packed(drows_ND);
    with_pack<X>(packed, [&](auto n) {
      const Grid grid{dim3(striding_blocks(stream, T * K, warps)),
                      dim3(warps * warp_size)};
      launch(stream, grid, combine_backward_kernel<X, n>, rows_of<Element>(dy_TD),
             rows_of<Element>(rows_ND), places_of(row_TK), T, K, D / n,
             rows_of<Wide<X>>(weights_TK), rows_of<Element>(drows_ND),
             rows_of<Wide<X>>(dweights_TK));
    });
  });
}

}  // namespace trireme::kernels::cuda
