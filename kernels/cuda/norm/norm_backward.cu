// Gradients of RMSNorm and LayerNorm on a GPU: one pass over memory.
// SPDX-License-Identifier: Apache-2.0
// Each block writes the input's gradient and sums its rows' part of the weight gradients.
// A second kernel adds these parts. T rows, D row length.
#include "kernels/cuda/common/column_sums.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/norm/demand.hpp"
#include "kernels/cuda/norm/norm_rows.cuh"
#include "kernels/math/norm.hpp"
#include "kernels/norm.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int most_threads = 512;

// Groups that a thread holds of medium and of long rows. Each costs W floats of a weight
// gradient, twice for LayerNorm, and a thread has 128 registers.
constexpr int few_groups = 2;
template <bool centered, int W>
constexpr int many_groups = centered&& W == 8 ? 3 : 4;

template <class T>
struct Backward {
  using A = Wide<T>;
  Rows<T> dy, x, residual, dx;
  const T* gain;
  const A *mean, *rstd;
  A *dgain_parts, *dshift_parts;  // a row for each block
  std::int64_t rows, D;
  A offset;  // of RMSNorm's gains
};

// dy times a gain.
template <bool centered, class A>
__device__ A with_gain(A dy, A gain, A offset) {
  return centered ? dy * gain : dy * (gain + offset);
}

// A thread's part of dgain and dshift: in registers, or if G is 0 in the block's partial
// row, whose columns no other thread touches. Where that row lies costs registers, which
// those of long rows want for sums: with G > 0 it is asked for at the end.
template <int W, int G, class A>
struct PartialSums {
  A held[G > 0 ? G : 1][W];
  A* row;
  template <class Threads>
  __device__ void clear(A* of_block, std::int64_t D) {
    if constexpr (G == 0) row = of_block;
    Threads::template for_groups<W, G>(D, [&](std::int64_t c, int g) {
#pragma unroll
      for (int i = 0; i < W; ++i) at(c, g, i) = A(0);
    });
  }
  __device__ A& at(std::int64_t c, int g, int i) {
    if constexpr (G > 0) {
      return held[g][i];
    } else {
      return row[c + i];
    }
  }
  // Into the partial row; where each warp has rows of its own, warp after warp.
  template <bool by_warp>
  __device__ void finish(A* of_block, std::int64_t D) {
    if constexpr (by_warp) {
      __shared__ A sums[warp_size * W * G];
      for (int turn = 0; turn < team_warps; ++turn) {
        if (static_cast<int>(threadIdx.y) == turn)
          Team<true>::for_groups<W, G>(D, [&](std::int64_t c, int g) {
#pragma unroll
            for (int i = 0; i < W; ++i) {
              const A sum = turn == 0 ? held[g][i] : sums[c + i] + held[g][i];
              sums[c + i] = sum;
              if (turn + 1 == team_warps) of_block[c + i] = sum;
            }
          });
        __syncthreads();
      }
    } else if constexpr (G > 0) {
      Team<false>::for_groups<W, G>(D, [&](std::int64_t c, int g) {
#pragma unroll
        for (int i = 0; i < W; ++i) of_block[c + i] = held[g][i];
      });
    }
  }
};

// With n = (x - mean) rstd and g = dy * gain:
//   dx = residual + rstd (g - [centered] average(g) - n average(g n)),
//   dgain += dy n, dshift += dy.
template <bool centered, bool by_warp, int W, int G, class T>
__global__ void __launch_bounds__(by_warp ? warp_size* team_warps : most_threads)
    norm_backward_rows(Backward<T> of) {
  using A = Wide<T>;
  using Threads = Team<by_warp>;
  const std::int64_t D = of.D, part = std::int64_t{blockIdx.x} * D;
  PartialSums<W, G, A> dgain, dshift;
  dgain.template clear<Threads>(of.dgain_parts + part, D);
  if constexpr (centered) dshift.template clear<Threads>(of.dshift_parts + part, D);
  for (std::int64_t t = Threads::first_row(); t < of.rows; t += Threads::row_step()) {
    using Row = TeamRow<T, W, G, !by_warp>;
    const Row x(Threads{}, of.x[t], D), dy(Threads{}, of.dy[t], D);
    const A mean = centered ? of.mean[t] : A(0), rstd = of.rstd[t];
    A sum_g = 0, sum_gn = 0;
    Threads::template for_groups<W, G>(D, [&](std::int64_t c, int g) {
      const auto x_c = x.at(c, g), dy_c = dy.at(c, g), gain = load_group<W>(of.gain + c);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const A product =
            with_gain<centered>(widen(dy_c.x[i]), widen(gain.x[i]), of.offset);
        if constexpr (centered) sum_g += product;
        sum_gn += product * (widen(x_c.x[i]) - mean);
      }
    });
    const A average_g = centered ? Threads::sum(sum_g) / static_cast<A>(D) : A(0);
    const A average_gn = Threads::sum(sum_gn) * rstd / static_cast<A>(D);
    Threads::template for_groups<W, G>(D, [&](std::int64_t c, int g) {
      const auto x_c = x.at(c, g), dy_c = dy.at(c, g), gain = load_group<W>(of.gain + c);
      const bool adds = of.residual.data != nullptr;
      Group<T, W> residual{}, dx;
      if (adds) residual = load_group<W>(of.residual[t] + c);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const A dy_i = widen(dy_c.x[i]);
        const A n = math::normalized(widen(x_c.x[i]), mean, rstd);
        const A product = with_gain<centered>(dy_i, widen(gain.x[i]), of.offset);
        A dx_i = math::norm_input_gradient(product, n, rstd, average_g, average_gn);
        if (adds) dx_i += widen(residual.x[i]);
        dgain.at(c, g, i) += dy_i * n;
        if constexpr (centered) dshift.at(c, g, i) += dy_i;
        dx.x[i] = narrow<T>(dx_i);
      }
      store_group(of.dx[t] + c, dx);
    });
  }
  // Computed again where registers are full of sums until here.
  const std::int64_t to =
      by_warp ? part : std::int64_t{recomputed(static_cast<int>(blockIdx.x))} * D;
  dgain.template finish<by_warp>(of.dgain_parts + to, D);
  if constexpr (centered) dshift.template finish<by_warp>(of.dshift_parts + to, D);
}

// How rows are shared. A function of T and D, and of whether rows are packed, alone.
struct Shares {
  bool by_warp = false;
  int groups = 0;  // that a thread holds
  std::int64_t threads = 0, blocks = 0;
};
Shares shares_of(std::int64_t rows, std::int64_t D, std::int64_t W, int many) {
  Shares of;
  of.by_warp = D <= warp_size * W * few_groups;
  of.groups = D <= most_threads * W * few_groups ? few_groups
              : D <= most_threads * W * many     ? many
                                                 : 0;
  of.threads = of.groups > 0 ? team_threads(D, W, of.groups) : most_threads;
  const std::int64_t needed = of.by_warp ? divide_up(rows, team_warps) : rows;
  // 512 threads and more to a multiprocessor.
  const std::int64_t times =
      of.by_warp ? 1 : std::clamp<std::int64_t>(256 / of.threads, 1, 4);
  of.blocks = std::min(needed, times * most_partial_rows);
  return of;
}

template <bool centered, int W, class T>
void launch_backward(Stream& stream, const Shares& shares, const Backward<T>& of) {
  constexpr int few = few_groups, many = many_groups<centered, W>;
  Grid grid;
  grid.blocks = dim3(extent(shares.blocks));
  grid.threads =
      shares.by_warp ? dim3(warp_size, team_warps) : dim3(extent(shares.threads));
  const auto kernel =
      shares.by_warp          ? norm_backward_rows<centered, true, W, few, T>
      : shares.groups == few  ? norm_backward_rows<centered, false, W, few, T>
      : shares.groups == many ? norm_backward_rows<centered, false, W, many, T>
                              : norm_backward_rows<centered, false, W, 0, T>;
  launch(stream, grid, kernel, of);
}

bool all_packed(const TensorView& dy_TD, const TensorView& x_TD, const TensorView& gain_D,
                const TensorView& residual_TD, const TensorView& dx_TD) {
  return is_packed(dy_TD) && is_packed(x_TD) && is_packed(residual_TD) &&
         is_packed(dx_TD) && is_packed(gain_D);
}

template <bool centered, class T>
Shares shares_for(const TensorView& x_TD, bool packed) {
  constexpr int W = pack_elements<T>;
  const std::int64_t rows = x_TD.dim(0), D = x_TD.dim(1);
  return packed ? shares_of(rows, D, W, many_groups<centered, W>)
                : shares_of(rows, D, 1, many_groups<centered, 1>);
}

template <bool centered>
void backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
              const RmsGain& gain, const TensorView& mean_T, const TensorView& rstd_T,
              const TensorView& residual_TD, const TensorView& dx_TD,
              const TensorView& dgain_D, const TensorView& dshift_D) {
  const TensorView& gain_D = gain.stored_D;
  if (x_TD.elements() == 0) return;
  visit_floating(x_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    using A = Wide<T>;
    constexpr int W = pack_elements<T>;
    const std::int64_t rows = x_TD.dim(0), D = x_TD.dim(1);
    const bool packed = all_packed(dy_TD, x_TD, gain_D, residual_TD, dx_TD);
    const Shares shares = shares_for<centered, T>(x_TD, packed);
    const std::int64_t parts = shares.blocks;
    A* const dgain_parts =
        workspace(stream, dgain_D.dtype(), {centered ? 2 : 1, parts, D})
            .template data<A>();
    A* const dshift_parts = centered ? dgain_parts + parts * D : nullptr;
    const Backward<T> of{rows_of<H>(dy_TD),
                         rows_of<H>(x_TD),
                         rows_of<H>(residual_TD),
                         rows_of<H>(dx_TD),
                         elements_of<H>(gain_D),
                         elements_of<A>(mean_T),
                         elements_of<A>(rstd_T),
                         dgain_parts,
                         dshift_parts,
                         rows,
                         D,
                         static_cast<A>(gain.offset)};
    if (packed) {
      launch_backward<centered, W>(stream, shares, of);
    } else {
      launch_backward<centered, 1>(stream, shares, of);
    }
    launch_add_partial_rows(stream, dgain_parts, parts, D, elements_of<A>(dgain_D));
    if constexpr (centered)
      launch_add_partial_rows(stream, dshift_parts, parts, D, elements_of<A>(dshift_D));
  });
}

}  // namespace

std::int64_t norm_backward_workspace(bool centered, const TensorView& dy_TD,
                                     const TensorView& x_TD, const TensorView& gain_D,
                                     const TensorView& residual_TD,
                                     const TensorView& dx_TD) {
  if (x_TD.elements() == 0) return 0;
  return visit_floating(x_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const bool packed = all_packed(dy_TD, x_TD, gain_D, residual_TD, dx_TD);
    const Shares shares =
        centered ? shares_for<true, T>(x_TD, packed) : shares_for<false, T>(x_TD, packed);
    return (centered ? 2 : 1) * shares.blocks * x_TD.dim(1) *
           static_cast<std::int64_t>(sizeof(Wide<T>));
  });
}

void rms_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                       const RmsGain& gain_D, const TensorView& rstd_T,
                       const TensorView& residual_TD, const TensorView& dx_TD,
                       const TensorView& dgain_D) {
  backward<false>(stream, dy_TD, x_TD, gain_D, {}, rstd_T, residual_TD, dx_TD, dgain_D,
                  {});
}

void layer_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                         const TensorView& gain_D, const TensorView& mean_T,
                         const TensorView& rstd_T, const TensorView& residual_TD,
                         const TensorView& dx_TD, const TensorView& dgain_D,
                         const TensorView& dshift_D) {
  backward<true>(stream, dy_TD, x_TD, gain_D, mean_T, rstd_T, residual_TD, dx_TD, dgain_D,
                 dshift_D);
}

}  // namespace trireme::kernels::cuda
