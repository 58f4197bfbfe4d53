// A thread of the host as the team of kernels/math/delta_rule.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host/delta_product.hpp"
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
    DeltaProducts<A>::multiply(of);
  }

  // U = (1 + L)^-1 U for U [rows, V], L strictly lower: what the rows before a block take
  // from it is a product.
  template <class A>
  void solve(const A* low, std::int64_t rows, A* u, std::int64_t V) const {
    for (std::int64_t begin = 0; begin < rows; begin += block) {
      const std::int64_t end = std::min(begin + block, rows);
      if (begin > 0)
        product(math::DeltaProduct<A>{end - begin, V, begin, low + begin * C, C, 1, u, V,
                                      1, u + begin * V, V, true, A(-1)});
      for (std::int64_t i = begin + 1; i < end; ++i)
        for (std::int64_t j = begin; j < i; ++j)
          add_row(-low[i * C + j], u + j * V, V, u + i * V);
    }
  }
  // The same with L^T.
  template <class A>
  void solve_transposed(const A* low, std::int64_t rows, A* u, std::int64_t V) const {
    for (std::int64_t begin = (rows - 1) / block * block; begin >= 0; begin -= block) {
      const std::int64_t end = std::min(begin + block, rows);
      for (std::int64_t i = end; i-- > begin + 1;)
        for (std::int64_t j = begin; j < i; ++j)
          add_row(-low[i * C + j], u + i * V, V, u + j * V);
      if (begin > 0)
        product(math::DeltaProduct<A>{begin, V, end - begin, low + begin * C, 1, C,
                                      u + begin * V, V, 1, u, V, true, A(-1)});
    }
  }

 private:
  static constexpr std::int64_t C = delta_chunk_rows, block = 16;

  template <class A>
  static void add_row(A by, const A* x, std::int64_t n, A* y) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] += by * x[i];
  }
};

}  // namespace trireme::kernels::host
