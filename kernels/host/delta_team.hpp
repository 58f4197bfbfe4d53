// A thread of the host as the team of kernels/math/delta_rule.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host/vector_math.hpp"
#include "kernels/math/delta_rule.hpp"

namespace trireme::kernels::host {

struct DeltaTeam {
  template <class A>
  static A exp_of_nonpositive(A x) {
    return exponential_of_nonpositive(x);
  }
  template <class T>
  static Accumulator<T> load(T x) {
    return kernels::load(x);
  }
  template <class T>
  static T store(Accumulator<T> x) {
    return kernels::store<T>(x);
  }

  template <class F>
  void each(std::int64_t n, const F& f) const {
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }
  template <class F>
  void each(std::int64_t m, std::int64_t n, const F& f) const {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) f(i, j);
  }

  template <class A>
  void product(const math::DeltaProduct<A>& of) const {
    for (std::int64_t m = 0; m < of.m; ++m) {
      A* const out = of.out + m * of.out_m;
      if (!of.add) std::fill_n(out, of.n, A(0));
      const A factor = of.scale == nullptr ? of.factor : of.factor * of.scale[m];
      if (factor == A(0)) continue;
      if (of.b_n == 1) {
        add_rows(of, of.a + m * of.a_m, factor, out);
      } else {
        add_dots(of, of.a + m * of.a_m, factor, out);
      }
    }
  }

  // (1 + L) x = u for the rows x of [rows, V], in place; L strictly lower.
  template <class A>
  void solve(const A* low, std::int64_t rows, A* u, std::int64_t V) const {
    for (std::int64_t i = 1; i < rows; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        add_row(-low[i * delta_chunk_rows + j], u + j * V, V, u + i * V);
  }
  // The same with L^T.
  template <class A>
  void solve_transposed(const A* low, std::int64_t rows, A* u, std::int64_t V) const {
    for (std::int64_t i = rows; i-- > 1;)
      for (std::int64_t j = 0; j < i; ++j)
        add_row(-low[i * delta_chunk_rows + j], u + i * V, V, u + j * V);
  }

 private:
  template <class A>
  static void add_row(A by, const A* x, std::int64_t n, A* y) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] += by * x[i];
  }

  // Four rows of b at a time, so that out is read and written a quarter as often.
  template <class A>
  static void add_rows(const math::DeltaProduct<A>& of, const A* a, A factor, A* out) {
    std::int64_t p = 0;
    for (; p + 4 <= of.p; p += 4) {
      const A a0 = factor * a[p * of.a_p], a1 = factor * a[(p + 1) * of.a_p],
              a2 = factor * a[(p + 2) * of.a_p], a3 = factor * a[(p + 3) * of.a_p];
      const A *b0 = of.b + p * of.b_p, *b1 = b0 + of.b_p, *b2 = b1 + of.b_p,
              *b3 = b2 + of.b_p;
#pragma omp simd
      for (std::int64_t n = 0; n < of.n; ++n)
        out[n] += (a0 * b0[n] + a1 * b1[n]) + (a2 * b2[n] + a3 * b3[n]);
    }
    for (; p < of.p; ++p) add_row(factor * a[p * of.a_p], of.b + p * of.b_p, of.n, out);
  }

  // Where a and b are both read along p.
  template <class A>
  static void add_dots(const math::DeltaProduct<A>& of, const A* a, A factor, A* out) {
    for (std::int64_t n = 0; n < of.n; ++n) {
      const A* const b = of.b + n * of.b_n;
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t p = 0; p < of.p; ++p) sum += a[p * of.a_p] * b[p * of.b_p];
      out[n] += factor * sum;
    }
  }
};

}  // namespace trireme::kernels::host
