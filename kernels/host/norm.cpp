// RMSNorm and LayerNorm on the host.
// SPDX-License-Identifier: Apache-2.0
// After the first time a row is read from the first-level cache; threads share the rows.
// T rows, D row length; A is the type of sums and statistics.
#include "kernels/norm.hpp"

#include "kernels/host/add_rows.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/norm.hpp"

namespace trireme::kernels::host {
namespace {

thread_local Scratch partial_sums("norm: partial sums of weight gradients");

template <class T>
Accumulator<T> sum(const T* x, std::int64_t D) {
  Accumulator<T> total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t d = 0; d < D; ++d) total += load(x[d]);
  return total;
}

// sum of (x - center)^2
template <class T>
Accumulator<T> sum_of_squares(const T* x, Accumulator<T> center, std::int64_t D) {
  Accumulator<T> total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t d = 0; d < D; ++d) {
    const auto v = load(x[d]) - center;
    total += v * v;
  }
  return total;
}

// The operands of a backward pass, as rows. `centered`: LayerNorm, else RMSNorm.
template <class T>
struct Backward {
  using A = Accumulator<T>;
  Rows<const T> dy, x, residual;
  Rows<T> dx;
  const T* gain;
  const A *mean, *rstd;
  std::int64_t T_, D;
  A offset = 0;  // of the gains of RMSNorm
};

// With n = (x - mean) rstd and g = dy * gain:
//   dx = residual + rstd (g - [centered] average(g) - n average(g n)),
//   dgain += dy n, dshift += dy.
template <bool centered, bool with_residual, class T>
void backward_row(const Backward<T>& of, std::int64_t t, Accumulator<T>* dgain,
                  Accumulator<T>* dshift) {
  using A = Accumulator<T>;
  const std::int64_t D = of.D;
  const T *dy = of.dy[t], *x = of.x[t], *gain = of.gain;
  const A rstd = of.rstd[t];
  const A mean = centered ? of.mean[t] : A(0);
  const A offset = of.offset;
  const auto gain_at = [gain, offset](std::int64_t d) {
    return centered ? load(gain[d]) : load(gain[d]) + offset;
  };
  A sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (std::int64_t d = 0; d < D; ++d) {
    const A g = load(dy[d]) * gain_at(d);
    if constexpr (centered) sum_g += g;
    sum_gn += g * (load(x[d]) - mean);
  }
  const A average_g = sum_g / static_cast<A>(D);
  const A average_gn = sum_gn * rstd / static_cast<A>(D);
  const T* residual = with_residual ? of.residual[t] : nullptr;
  T* dx = of.dx[t];
#pragma omp simd
  for (std::int64_t d = 0; d < D; ++d) {
    const A dy_d = load(dy[d]);
    const A n = math::normalized(load(x[d]), mean, rstd);
    A dx_d = math::norm_input_gradient(dy_d * gain_at(d), n, rstd, average_g, average_gn);
    if constexpr (with_residual) dx_d += load(residual[d]);
    dgain[d] += dy_d * n;
    if constexpr (centered) dshift[d] += dy_d;
    dx[d] = store<T>(dx_d);
  }
}

// Each part of the rows adds into its own sums, laid out as [part][dgain, dshift][D].
template <bool centered, bool with_residual, class T>
void backward_rows(const char* label, const Backward<T>& of, Accumulator<T>* dgain,
                   Accumulator<T>* dshift) {
  using A = Accumulator<T>;
  const std::int64_t parts = row_parts(of.T_, of.D), D = of.D;
  A* const gains = partial_sums.take<A>((centered ? 2 : 1) * parts * D);
  A* const shifts = centered ? gains + parts * D : nullptr;
  run_chunks(label, parts, ChunkBody([&](std::int64_t p) {
               A* const gain = gains + p * D;
               A* const shift = centered ? shifts + p * D : nullptr;
               std::fill(gain, gain + D, A(0));
               if constexpr (centered) std::fill(shift, shift + D, A(0));
               const Range range = split_range(of.T_, parts, p);
               for (std::int64_t t = range.begin; t < range.end; ++t)
                 backward_row<centered, with_residual>(of, t, gain, shift);
             }));
  add_partial_sums(label, gains, parts, D, dgain);
  if constexpr (centered) add_partial_sums(label, shifts, parts, D, dshift);
}

template <bool centered, class T>
void backward_with(const char* label, const Backward<T>& of, Accumulator<T>* dgain,
                   Accumulator<T>* dshift) {
  if (of.residual.data != nullptr)
    backward_rows<centered, true>(label, of, dgain, dshift);
  else
    backward_rows<centered, false>(label, of, dgain, dshift);
}

template <class T>
Backward<T> backward_of(const TensorView& dy_TD, const TensorView& x_TD,
                        const TensorView& gain_D, const TensorView& rstd_T,
                        const TensorView& residual_TD, const TensorView& dx_TD) {
  return {rows_of<const T>(dy_TD),
          rows_of<const T>(x_TD),
          rows_of<const T>(residual_TD),
          rows_of<T>(dx_TD),
          gain_D.data<T>(),
          nullptr,
          rstd_T.data<Accumulator<T>>(),
          x_TD.dim(0),
          x_TD.dim(1)};
}

// A sum of rows before a norm, or none.
template <class T>
struct Sum {
  Rows<const T> residual, branch;
  Rows<T> x;
  const T* bias = nullptr;

  Sum() = default;
  Sum(const Addends& of, const TensorView& x_TD)
      : residual(rows_of<const T>(of.residual_TD)),
        branch(rows_of<const T>(of.branch_TD)),
        x(rows_of<T>(x_TD)),
        bias(of.bias_D.empty() ? nullptr : of.bias_D.data<T>()) {}
  void make(std::int64_t t, std::int64_t D) const {
    if (x.data != nullptr) add_rows(residual[t], branch[t], bias, x[t], 0, D);
  }
};

template <class T>
void rms_norm_rows(const char* label, const Sum<T>& sum_before, const TensorView& x_TD,
                   const RmsGain& gain_D, double eps, const TensorView& y_TD,
                   const TensorView& rstd_T) {
  using A = Accumulator<T>;
  const auto x = rows_of<const T>(x_TD);
  const auto y = rows_of<T>(y_TD);
  const T* const gain = gain_D.stored_D.data<T>();
  const A offset = static_cast<A>(gain_D.offset);
  A* const rstd = rstd_T.data<A>();
  const std::int64_t D = x_TD.dim(1);
  for_rows(label, x_TD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      sum_before.make(t, D);
      const T* x_D = x[t];
      T* y_D = y[t];
      const A r = math::reciprocal_root(sum_of_squares(x_D, A(0), D) / static_cast<A>(D),
                                        static_cast<A>(eps));
      rstd[t] = r;
#pragma omp simd
      for (std::int64_t d = 0; d < D; ++d)
        y_D[d] =
            store<T>(math::normalized(load(x_D[d]), A(0), r) * (load(gain[d]) + offset));
    }
  });
}

template <class T>
void layer_norm_rows(const char* label, const Sum<T>& sum_before, const TensorView& x_TD,
                     const TensorView& gain_D, const TensorView& shift_D, double eps,
                     const TensorView& y_TD, const TensorView& mean_T,
                     const TensorView& rstd_T) {
  using A = Accumulator<T>;
  const auto x = rows_of<const T>(x_TD);
  const auto y = rows_of<T>(y_TD);
  const T *const gain = gain_D.data<T>(), *const shift = shift_D.data<T>();
  A *const mean = mean_T.data<A>(), *const rstd = rstd_T.data<A>();
  const std::int64_t D = x_TD.dim(1);
  for_rows(label, x_TD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      sum_before.make(t, D);
      const T* x_D = x[t];
      T* y_D = y[t];
      // Two passes: the variance from squares alone would cancel for large means.
      const A m = sum(x_D, D) / static_cast<A>(D);
      const A r = math::reciprocal_root(sum_of_squares(x_D, m, D) / static_cast<A>(D),
                                        static_cast<A>(eps));
      mean[t] = m;
      rstd[t] = r;
#pragma omp simd
      for (std::int64_t d = 0; d < D; ++d)
        y_D[d] = store<T>(math::normalized(load(x_D[d]), m, r) * load(gain[d]) +
                          load(shift[d]));
    }
  });
}

}  // namespace

void rms_norm(Stream& /*stream*/, const TensorView& x_TD, const RmsGain& gain_D,
              double eps, const TensorView& y_TD, const TensorView& rstd_T) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    rms_norm_rows<T>("rms_norm", {}, x_TD, gain_D, eps, y_TD, rstd_T);
  });
}

void add_rms_norm(Stream& /*stream*/, const Addends& addends, const TensorView& x_TD,
                  const RmsGain& gain_D, double eps, const TensorView& y_TD,
                  const TensorView& rstd_T) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    rms_norm_rows<T>("add_rms_norm", {addends, x_TD}, x_TD, gain_D, eps, y_TD, rstd_T);
  });
}

void rms_norm_backward(Stream& /*stream*/, const TensorView& dy_TD,
                       const TensorView& x_TD, const RmsGain& gain_D,
                       const TensorView& rstd_T, const TensorView& residual_TD,
                       const TensorView& dx_TD, const TensorView& dgain_D) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    auto of = backward_of<T>(dy_TD, x_TD, gain_D.stored_D, rstd_T, residual_TD, dx_TD);
    of.offset = static_cast<A>(gain_D.offset);
    backward_with<false, T>("rms_norm_backward", of, dgain_D.data<A>(), nullptr);
  });
}

void layer_norm(Stream& /*stream*/, const TensorView& x_TD, const TensorView& gain_D,
                const TensorView& shift_D, double eps, const TensorView& y_TD,
                const TensorView& mean_T, const TensorView& rstd_T) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    layer_norm_rows<T>("layer_norm", {}, x_TD, gain_D, shift_D, eps, y_TD, mean_T,
                       rstd_T);
  });
}

void add_layer_norm(Stream& /*stream*/, const Addends& addends, const TensorView& x_TD,
                    const TensorView& gain_D, const TensorView& shift_D, double eps,
                    const TensorView& y_TD, const TensorView& mean_T,
                    const TensorView& rstd_T) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    layer_norm_rows<T>("add_layer_norm", {addends, x_TD}, x_TD, gain_D, shift_D, eps,
                       y_TD, mean_T, rstd_T);
  });
}

void layer_norm_backward(Stream& /*stream*/, const TensorView& dy_TD,
                         const TensorView& x_TD, const TensorView& gain_D,
                         const TensorView& mean_T, const TensorView& rstd_T,
                         const TensorView& residual_TD, const TensorView& dx_TD,
                         const TensorView& dgain_D, const TensorView& dshift_D) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    auto of = backward_of<T>(dy_TD, x_TD, gain_D, rstd_T, residual_TD, dx_TD);
    of.mean = mean_T.data<A>();
    backward_with<true, T>("layer_norm_backward", of, dgain_D.data<A>(),
                           dshift_D.data<A>());
  });
}

}  // namespace trireme::kernels::host
