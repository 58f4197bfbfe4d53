// RMSNorm of rows in parts, on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/split_norm.hpp"

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/norm.hpp"

namespace trireme::kernels::host {

void row_products(Stream& /*stream*/, const TensorView& a_TE, const TensorView& b_TE,
                  const TensorView& gain_E, const TensorView& sums_T) {
  const std::int64_t E = a_TE.dim(1);
  visit_floating(a_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto a = rows_of<const T>(a_TE), b = rows_of<const T>(b_TE);
    const T* const gain = gain_E.empty() ? nullptr : gain_E.data<T>();
    A* const sums = sums_T.data<A>();
    for_rows("row_products", a_TE.dim(0), E, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const T *left = a[t], *right = b[t];
        A sum = 0;
        if (gain == nullptr) {
#pragma omp simd reduction(+ : sum)
          for (std::int64_t e = 0; e < E; ++e) sum += load(left[e]) * load(right[e]);
        } else {
#pragma omp simd reduction(+ : sum)
          for (std::int64_t e = 0; e < E; ++e)
            sum += load(left[e]) * load(gain[e]) * load(right[e]);
        }
        sums[t] = sum;
      }
    });
  });
}

void split_rms_norm(Stream& /*stream*/, const TensorView& x_TE, const TensorView& gain_E,
                    const TensorView& squares_T, std::int64_t width, double eps,
                    const TensorView& y_TE, const TensorView& rstd_T) {
  const std::int64_t E = x_TE.dim(1);
  visit_floating(x_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto x = rows_of<const T>(x_TE);
    const auto y = rows_of<T>(y_TE);
    const T* const gain = gain_E.data<T>();
    const A* const squares = squares_T.data<A>();
    A* const rstds = rstd_T.data<A>();
    for_rows("split_rms_norm", x_TE.dim(0), E, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const A rstd = math::reciprocal_root(squares[t] / static_cast<A>(width),
                                             static_cast<A>(eps));
        rstds[t] = rstd;
        const T* from = x[t];
        T* to = y[t];
#pragma omp simd
        for (std::int64_t e = 0; e < E; ++e)
          to[e] = store<T>(math::normalized(load(from[e]), A(0), rstd) * load(gain[e]));
      }
    });
  });
}

void split_rms_norm_backward(Stream& /*stream*/, const TensorView& dy_TE,
                             const TensorView& x_TE, const TensorView& gain_E,
                             const TensorView& rstd_T, const TensorView& products_T,
                             std::int64_t width, const TensorView& dx_TE,
                             const TensorView& terms_TE) {
  const std::int64_t E = x_TE.dim(1);
  visit_floating(x_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto dy = rows_of<const T>(dy_TE), x = rows_of<const T>(x_TE);
    const auto dx = rows_of<T>(dx_TE);
    const auto terms = rows_of<A>(terms_TE);
    const T* const gain = gain_E.data<T>();
    const A* const rstds = rstd_T.data<A>();
    const A* const products = products_T.empty() ? nullptr : products_T.data<A>();
    for_rows("split_rms_norm_backward", x_TE.dim(0), E,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t) {
                 const T *gradient = dy[t], *from = x[t];
                 const A rstd = rstds[t];
                 const A average = products == nullptr
                                       ? A(0)
                                       : products[t] * rstd / static_cast<A>(width);
                 T* to = dx[t];
                 A* term = terms[t];
#pragma omp simd
                 for (std::int64_t e = 0; e < E; ++e) {
                   const A d = load(gradient[e]);
                   const A n = math::normalized(load(from[e]), A(0), rstd);
                   term[e] = d * n;
                   to[e] = store<T>(math::norm_input_gradient(d * load(gain[e]), n, rstd,
                                                              A(0), average));
                 }
               }
             });
  });
}

}  // namespace trireme::kernels::host
