// RMSNorm and LayerNorm on a GPU: one pass over memory (T rows, D row length).
// SPDX-License-Identifier: Apache-2.0
// A row too long for the registers of a block is read again for each pass over it, from
// the cache where it is still there.
#include <cmath>

#include "kernels/cuda/norm/demand.hpp"
#include "kernels/cuda/norm/norm_rows.cuh"
#include "kernels/math/norm.hpp"
#include "kernels/norm.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int held_groups = 4;
constexpr int most_threads = 1024, wide_threads = 512;

template <class T>
struct Forward {
  using A = Wide<T>;
  Rows<T> x, y;
  const T *gain, *shift;
  A *mean, *rstd;
  A eps, offset;  // of RMSNorm's gains
  std::int64_t rows, D;
  SumOfRows<T> sum;  // what x is made of, if the kernel makes it
};

// This thread's part of row t of x, which `adds` makes first.
template <bool adds, class Threads, int W, int G, class T>
__device__ TeamRow<T, W, G> row_of(const Forward<T>& of, std::int64_t t) {
  if constexpr (adds) {
    return TeamRow<T, W, G>(Threads{}, of.sum, t, of.x[t], of.D);
  } else {
    return TeamRow<T, W, G>(Threads{}, of.x[t], of.D);
  }
}

// centered: LayerNorm, else RMSNorm.
template <bool centered, bool adds, bool by_warp, int W, int G, class T>
__global__ void __launch_bounds__(by_warp ? 256 : most_threads) norm_rows(Forward<T> of) {
  using A = Wide<T>;
  using Threads = Team<by_warp>;
  for (std::int64_t t = Threads::first_row(); t < of.rows; t += Threads::row_step()) {
    const auto x = row_of<adds, Threads, W, G>(of, t);
    A mean = 0;
    if constexpr (centered) {
      A sum = 0;
      Threads::template for_groups<W, G>(of.D, [&](std::int64_t c, int g) {
        const auto group = x.at(c, g);
#pragma unroll
        for (int i = 0; i < W; ++i) sum += widen(group.x[i]);
      });
      mean = Threads::sum(sum) / static_cast<A>(of.D);
    }
    // From deviations: the variance from squares alone would cancel for large means.
    A squares = 0;
    Threads::template for_groups<W, G>(of.D, [&](std::int64_t c, int g) {
      const auto group = x.at(c, g);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const A v = widen(group.x[i]) - mean;
        squares += v * v;
      }
    });
    const A mean_square = Threads::sum(squares) / static_cast<A>(of.D);
    const A rstd = math::reciprocal_root(mean_square, of.eps);
    if (Threads::lane() == 0) {
      if constexpr (centered) of.mean[t] = mean;
      of.rstd[t] = rstd;
    }
    Threads::template for_groups<W, G>(of.D, [&](std::int64_t c, int g) {
      auto group = x.at(c, g);
      const auto gain = load_group<W>(of.gain + c);
      Group<T, W> shift;
      if constexpr (centered) shift = load_group<W>(of.shift + c);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        A factor = widen(gain.x[i]);
        if constexpr (!centered) factor += of.offset;
        A y = math::normalized(widen(group.x[i]), mean, rstd) * factor;
        if constexpr (centered) y += widen(shift.x[i]);
        group.x[i] = narrow<T>(y);
      }
      store_group(of.y[t] + c, group);
    });
  }
}

template <bool centered, bool adds, int W, class T>
void launch_norm(Stream& stream, const Forward<T>& of) {
  Grid grid;
  if (of.D <= std::int64_t{warp_size} * W * held_groups) {
    grid.threads = dim3(warp_size, team_warps);
    grid.blocks = dim3(striding_blocks(stream, of.rows, team_warps));
    launch(stream, grid, norm_rows<centered, adds, true, W, held_groups, T>, of);
    return;
  }
  const std::int64_t threads = team_threads(of.D, W, held_groups);
  grid.blocks = dim3(striding_blocks(stream, of.rows, 1));
  grid.threads = dim3(extent(threads <= most_threads ? threads : wide_threads));
  launch(stream, grid,
         threads <= most_threads ? norm_rows<centered, adds, false, W, held_groups, T>
                                 : norm_rows<centered, adds, false, W, 0, T>,
         of);
}

template <bool centered, bool adds>
void forward(Stream& stream, const Addends& addends, const TensorView& x_TD,
             const RmsGain& gain, const TensorView& shift_D, double eps,
             const TensorView& y_TD, const TensorView& mean_T, const TensorView& rstd_T) {
  const TensorView& gain_D = gain.stored_D;
  if (x_TD.elements() == 0) return;
  visit_floating(x_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    using A = Wide<T>;
    const Forward<T> of{rows_of<H>(x_TD),
                        rows_of<H>(y_TD),
                        elements_of<H>(gain_D),
                        elements_of<H>(shift_D),
                        elements_of<A>(mean_T),
                        elements_of<A>(rstd_T),
                        static_cast<A>(eps),
                        static_cast<A>(gain.offset),
                        x_TD.dim(0),
                        x_TD.dim(1),
                        {rows_of<H>(addends.residual_TD), rows_of<H>(addends.branch_TD),
                         elements_of<H>(addends.bias_D)}};
    const bool packed = is_packed(addends.residual_TD) && is_packed(addends.branch_TD) &&
                        is_packed(addends.bias_D) && is_packed(x_TD) && is_packed(y_TD) &&
                        is_packed(gain_D) && is_packed(shift_D);
    if (packed) {
      launch_norm<centered, adds, pack_elements<T>>(stream, of);
    } else {
      launch_norm<centered, adds, 1>(stream, of);
    }
  });
}

}  // namespace

void rms_norm(Stream& stream, const TensorView& x_TD, const RmsGain& gain_D, double eps,
              const TensorView& y_TD, const TensorView& rstd_T) {
  forward<false, false>(stream, {}, x_TD, gain_D, {}, eps, y_TD, {}, rstd_T);
}

void layer_norm(Stream& stream, const TensorView& x_TD, const TensorView& gain_D,
                const TensorView& shift_D, double eps, const TensorView& y_TD,
                const TensorView& mean_T, const TensorView& rstd_T) {
  forward<true, false>(stream, {}, x_TD, gain_D, shift_D, eps, y_TD, mean_T, rstd_T);
}

void add_rms_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                  const RmsGain& gain_D, double eps, const TensorView& y_TD,
                  const TensorView& rstd_T) {
  forward<false, true>(stream, addends, x_TD, gain_D, {}, eps, y_TD, {}, rstd_T);
}

void add_layer_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                    const TensorView& gain_D, const TensorView& shift_D, double eps,
                    const TensorView& y_TD, const TensorView& mean_T,
                    const TensorView& rstd_T) {
  forward<true, true>(stream, addends, x_TD, gain_D, shift_D, eps, y_TD, mean_T, rstd_T);
}

}  // namespace trireme::kernels::cuda
