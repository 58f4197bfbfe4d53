// RMSNorm of rows in parts, on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/math/norm.hpp"
#include "kernels/split_norm.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int sum_threads = 256;

// A block a row.
template <class T>
__global__ void __launch_bounds__(sum_threads)
    sum_products(Rows<T> a, Rows<T> b, const T* gain, Wide<T>* sums, std::int64_t rows,
                 std::int64_t E) {
  for (std::int64_t t = blockIdx.x; t < rows; t += gridDim.x) {
    const T* const left = a[t];
    const T* const right = b[t];
    Wide<T> sum = 0;
    for (std::int64_t e = threadIdx.x; e < E; e += sum_threads) {
      const Wide<T> x =
          gain == nullptr ? widen(left[e]) : widen(left[e]) * widen(gain[e]);
      sum += x * widen(right[e]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[t] = sum;
  }
}

template <class T>
struct Normalize {
  using A = Wide<T>;
  Rows<T> x, y;
  const T* gain;
  const A* squares;
  A* rstds;
  A width, eps;
  template <int W>
  __device__ void at(std::int64_t t, std::int64_t e) const {
    const A rstd = math::reciprocal_root(squares[t] / width, eps);
    if (e == 0) rstds[t] = rstd;
    auto group = load_group<W>(x[t] + e);
    const auto gains = load_group<W>(gain + e);
#pragma unroll
    for (int i = 0; i < W; ++i)
      group.x[i] =
          narrow<T>(math::normalized(widen(group.x[i]), A(0), rstd) * widen(gains.x[i]));
    store_group(y[t] + e, group);
  }
};

template <class T>
struct NormGradient {
  using A = Wide<T>;
  Rows<T> dy, x, dx;
  Rows<A> terms;
  const T* gain;
  const A *rstds, *products;
  A width;
  template <int W>
  __device__ void at(std::int64_t t, std::int64_t e) const {
    const A rstd = rstds[t];
    const A average = products == nullptr ? A(0) : products[t] * rstd / width;
    auto group = load_group<W>(dy[t] + e);
    const auto from = load_group<W>(x[t] + e), gains = load_group<W>(gain + e);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const A d = widen(group.x[i]);
      const A n = math::normalized(widen(from.x[i]), A(0), rstd);
      terms[t][e + i] = d * n;
      group.x[i] = narrow<T>(
          math::norm_input_gradient(d * widen(gains.x[i]), n, rstd, A(0), average));
    }
    store_group(dx[t] + e, group);
  }
};

}  // namespace

void row_products(Stream& stream, const TensorView& a_TE, const TensorView& b_TE,
                  const TensorView& gain_E, const TensorView& sums_T) {
  const std::int64_t T = a_TE.dim(0), E = a_TE.dim(1);
  if (T == 0) return;
  visit_floating(a_TE.dtype(), [&]<class H>(H) {
    using D = DeviceType<H>;
    const Grid grid{{striding_blocks(stream, T, 1)}, {sum_threads}};
    launch(stream, grid, sum_products<D>, rows_of<H>(a_TE), rows_of<H>(b_TE),
           elements_of<H>(gain_E), elements_of<Accumulator<H>>(sums_T), T, E);
  });
}

void split_rms_norm(Stream& stream, const TensorView& x_TE, const TensorView& gain_E,
                    const TensorView& squares_T, std::int64_t width, double eps,
                    const TensorView& y_TE, const TensorView& rstd_T) {
  visit_floating(x_TE.dtype(), [&]<class H>(H) {
    using D = DeviceType<H>;
    using A = Wide<D>;
    constexpr int W = pack_elements<D>;
    const Normalize<D> f{rows_of<H>(x_TE),
                         rows_of<H>(y_TE),
                         elements_of<H>(gain_E),
                         elements_of<Accumulator<H>>(squares_T),
                         elements_of<Accumulator<H>>(rstd_T),
                         static_cast<A>(width),
                         static_cast<A>(eps)};
    const bool aligned = starts_are_aligned(x_TE) && starts_are_aligned(y_TE) &&
                         starts_are_aligned(gain_E);
    launch_over_rows<W>(stream, {x_TE.dim(0), x_TE.dim(1)}, aligned, f);
  });
}

void split_rms_norm_backward(Stream& stream, const TensorView& dy_TE,
                             const TensorView& x_TE, const TensorView& gain_E,
                             const TensorView& rstd_T, const TensorView& products_T,
                             std::int64_t width, const TensorView& dx_TE,
                             const TensorView& terms_TE) {
  visit_floating(x_TE.dtype(), [&]<class H>(H) {
    using D = DeviceType<H>;
    using A = Accumulator<H>;
    constexpr int W = pack_elements<D>;
    const NormGradient<D> f{rows_of<H>(dy_TE),          rows_of<H>(x_TE),
                            rows_of<H>(dx_TE),          rows_of<A>(terms_TE),
                            elements_of<H>(gain_E),     elements_of<A>(rstd_T),
                            elements_of<A>(products_T), static_cast<Wide<D>>(width)};
    const bool aligned = starts_are_aligned(dy_TE) && starts_are_aligned(x_TE) &&
                         starts_are_aligned(dx_TE) && starts_are_aligned(gain_E);
    launch_over_rows<W>(stream, {x_TE.dim(0), x_TE.dim(1)}, aligned, f);
  });
}

}  // namespace trireme::kernels::cuda
