// Activations on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {
namespace {

template <class Formula, class T>
void activate_gated(const TensorView& u_N2F, const TensorView& a_NF) {
  const auto u = rows_of<const T>(u_N2F);
  const auto a = rows_of<T>(a_NF);
  const std::int64_t F = a_NF.dim(1);
  for_rows("activation", a_NF.dim(0), F, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T *gate = u[n], *up = gate + F;
      T* a_F = a[n];
#pragma omp simd
      for (std::int64_t f = 0; f < F; ++f)
        a_F[f] = store<T>(Formula::value(load(gate[f]), load(up[f])));
    }
  });
}

template <class Formula, class T>
void activate_gated_backward(const TensorView& da_NF, const TensorView& u_N2F,
                             const TensorView& du_N2F) {
  const auto da = rows_of<const T>(da_NF);
  const auto u = rows_of<const T>(u_N2F);
  const auto du = rows_of<T>(du_N2F);
  const std::int64_t F = da_NF.dim(1);
  for_rows(
      "activation_backward", da_NF.dim(0), F, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const T *da_F = da[n], *gate = u[n], *up = gate + F;
          T *dgate = du[n], *dup = dgate + F;
#pragma omp simd
          for (std::int64_t f = 0; f < F; ++f) {
            const auto d = Formula::gradient(load(da_F[f]), load(gate[f]), load(up[f]));
            dgate[f] = store<T>(d.gate);
            dup[f] = store<T>(d.up);
          }
        }
      });
}

template <class Formula, class T>
void activate_elements(const TensorView& x_, const TensorView& a_) {
  const auto x = rows_of<const T>(x_);
  const auto a = rows_of<T>(a_);
  for_elements("activation", {&x_, &a_},
               [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                 const T* x_r = x[r];
                 T* a_r = a[r];
#pragma omp simd
                 for (std::int64_t i = begin; i < end; ++i)
                   a_r[i] = store<T>(Formula::value(load(x_r[i])));
               });
}

template <class Formula, class T>
void activate_elements_backward(const TensorView& da_, const TensorView& x_,
                                const TensorView& dx_) {
  const auto da = rows_of<const T>(da_);
  const auto x = rows_of<const T>(x_);
  const auto dx = rows_of<T>(dx_);
  for_elements("activation_backward", {&da_, &x_, &dx_},
               [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                 const T *da_r = da[r], *x_r = x[r];
                 T* dx_r = dx[r];
#pragma omp simd
                 for (std::int64_t i = begin; i < end; ++i)
                   dx_r[i] = store<T>(Formula::gradient(load(da_r[i]), load(x_r[i])));
               });
}

}  // namespace

void activate(Stream& /*stream*/, Activation kind, const TensorView& u_NU,
              const TensorView& a_NF) {
  visit_floating(a_NF.dtype(), [&]<class T>(T) {
    math::visit_activation<HostMath>(kind, [&]<class Formula>(Formula) {
      if constexpr (Formula::gated) {
        activate_gated<Formula, T>(u_NU, a_NF);
      } else {
        activate_elements<Formula, T>(u_NU, a_NF);
      }
    });
  });
}

void activate_backward(Stream& /*stream*/, Activation kind, const TensorView& da_NF,
                       const TensorView& u_NU, const TensorView& du_NU) {
  visit_floating(da_NF.dtype(), [&]<class T>(T) {
    math::visit_activation<HostMath>(kind, [&]<class Formula>(Formula) {
      if constexpr (Formula::gated) {
        activate_gated_backward<Formula, T>(da_NF, u_NU, du_NU);
      } else {
        activate_elements_backward<Formula, T>(da_NF, u_NU, du_NU);
      }
    });
  });
}

}  // namespace trireme::kernels::host
