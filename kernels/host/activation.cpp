// SwiGLU and GELU on the host. sigma(x) = 1 / (1 + e^-x) throughout.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {
namespace {

// GELU by tanh is x sigma(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since
// (1 + tanh u) / 2 = sigma(2 u): no cancellation where tanh is near -1.
template <class A>
struct Gelu {
  A sigma, complement;  // of 2 u
  A slope;              // d (2 u) / dx
};

// Beyond |x| = 30 sigma is 0 or 1 in every type, and x is clamped there: x^3 would
// overflow for large x and infinity times the complement, 0, would be NaN.
template <class A>
[[gnu::always_inline]] inline Gelu<A> gelu_parts(A x) {
  constexpr A two_root = static_cast<A>(1.5957691216057308);  // 2 sqrt(2 / pi)
  constexpr A cubic = static_cast<A>(0.044715);
  A c = x > A(30) ? A(30) : x;
  c = c < A(-30) ? A(-30) : c;
  const A square = c * c;
  const auto sigma = logistic(two_root * c * (A(1) + cubic * square));
  return {sigma.value, sigma.complement, two_root * (A(1) + A(3) * cubic * square)};
}

}  // namespace

void swiglu(Stream& /*stream*/, const TensorView& gate_up_T2F, const TensorView& y_TF) {
  visit_floating(y_TF.dtype(), [&]<class T>(T) {
    const auto gate_up = rows_of<const T>(gate_up_T2F);
    const auto y = rows_of<T>(y_TF);
    const std::int64_t F = y_TF.dim(1);
    for_rows("swiglu", y_TF.dim(0), F, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const T *gate = gate_up[t], *up = gate + F;
        T* y_F = y[t];
#pragma omp simd
        for (std::int64_t f = 0; f < F; ++f) {
          const auto g = load(gate[f]);
          y_F[f] = store<T>(g * logistic(g).value * load(up[f]));
        }
      }
    });
  });
}

// silu'(g) = sigma (1 + g (1 - sigma)).
void swiglu_backward(Stream& /*stream*/, const TensorView& dy_TF,
                     const TensorView& gate_up_T2F, const TensorView& dgate_up_T2F) {
  visit_floating(dy_TF.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto dy = rows_of<const T>(dy_TF);
    const auto gate_up = rows_of<const T>(gate_up_T2F);
    const auto dgate_up = rows_of<T>(dgate_up_T2F);
    const std::int64_t F = dy_TF.dim(1);
    for_rows("swiglu_backward", dy_TF.dim(0), F,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t) {
                 const T *dy_F = dy[t], *gate = gate_up[t], *up = gate + F;
                 T *dgate = dgate_up[t], *dup = dgate + F;
#pragma omp simd
                 for (std::int64_t f = 0; f < F; ++f) {
                   const A g = load(gate[f]), dy_f = load(dy_F[f]);
                   const auto sigma = logistic(g);
                   const A slope = sigma.value * (A(1) + g * sigma.complement);
                   dgate[f] = store<T>(dy_f * load(up[f]) * slope);
                   dup[f] = store<T>(dy_f * g * sigma.value);
                 }
               }
             });
  });
}

void gelu(Stream& /*stream*/, const TensorView& x_, const TensorView& y_) {
  visit_floating(x_.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_);
    const auto y = rows_of<T>(y_);
    for_elements("gelu", {&x_, &y_},
                 [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                   const T* from = x[r];
                   T* to = y[r];
#pragma omp simd
                   for (std::int64_t i = begin; i < end; ++i) {
                     const auto v = load(from[i]);
                     to[i] = store<T>(v * gelu_parts(v).sigma);
                   }
                 });
  });
}

void gelu_backward(Stream& /*stream*/, const TensorView& dy_, const TensorView& x_,
                   const TensorView& dx_) {
  visit_floating(x_.dtype(), [&]<class T>(T) {
    const auto dy = rows_of<const T>(dy_);
    const auto x = rows_of<const T>(x_);
    const auto dx = rows_of<T>(dx_);
    for_elements("gelu_backward", {&dy_, &x_, &dx_},
                 [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                   const T *dy_r = dy[r], *x_r = x[r];
                   T* dx_r = dx[r];
#pragma omp simd
                   for (std::int64_t i = begin; i < end; ++i) {
                     const auto v = load(x_r[i]);
                     const auto part = gelu_parts(v);
                     const auto slope =
                         part.sigma + part.sigma * (v * part.complement) * part.slope;
                     dx_r[i] = store<T>(load(dy_r[i]) * slope);
                   }
                 });
  });
}

}  // namespace trireme::kernels::host
