// The products of a chunk of the gated delta rule on a host, summed in registers.
// SPDX-License-Identifier: Apache-2.0
// They are too small for a library's call, and lie in memory in every order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host/simd.hpp"
#include "kernels/math/delta_space.hpp"

namespace trireme::kernels::host {

template <class A>
class DeltaProducts {
 public:
  static void multiply(const math::DeltaProduct<A>& of) {
    alignas(simd::register_bytes) A panel[most_depth * columns];
    for (std::int64_t n = 0; n < of.n; n += columns) {
      const std::int64_t width = std::min(columns, of.n - n);
      if (!of.add) clear(of, n, width);
      for (std::int64_t p = 0; p < of.p; p += most_depth) {
        const std::int64_t depth = std::min(most_depth, of.p - p);
        pack(of, n, width, p, depth, panel);
        for (std::int64_t m = 0; m < of.m; m += rows)
          add_tile(of, m, n, width, p, depth, panel);
      }
    }
  }

 private:
  static constexpr int rows = 4, vectors = 2;
  static constexpr std::int64_t columns = vectors * simd::lanes<A>, most_depth = 128;

  static void clear(const math::DeltaProduct<A>& of, std::int64_t n, std::int64_t width) {
    for (std::int64_t m = 0; m < of.m; ++m)
      std::fill_n(of.out + m * of.out_m + n, width, A(0));
  }

  // [depth, columns] of b, with zeros behind its last column.
  static void pack(const math::DeltaProduct<A>& of, std::int64_t n, std::int64_t width,
                   std::int64_t p, std::int64_t depth, A* panel) {
    for (std::int64_t i = 0; i < depth; ++i) {
      const A* const from = of.b + (p + i) * of.b_p + n * of.b_n;
      A* const to = panel + i * columns;
      if (of.b_n == 1) {
        std::copy_n(from, width, to);
      } else {
        for (std::int64_t j = 0; j < width; ++j) to[j] = from[j * of.b_n];
      }
      std::fill_n(to + width, columns - width, A(0));
    }
  }

  // Adds to rows [m, m + rows) of out; rows beyond the last repeat it and are not kept.
  static void add_tile(const math::DeltaProduct<A>& of, std::int64_t m, std::int64_t n,
                       std::int64_t width, std::int64_t p, std::int64_t depth,
                       const A* panel) {
    constexpr int lanes = simd::lanes<A>;
    const A* from[rows];
    for (int r = 0; r < rows; ++r)
      from[r] = of.a + std::min(m + r, of.m - 1) * of.a_m + p * of.a_p;
    simd::Vector<A> sums[rows][vectors] = {};
    for (std::int64_t i = 0; i < depth; ++i) {
      simd::Vector<A> b[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        b[v] = simd::load_vector(panel + i * columns + v * lanes);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const simd::Vector<A> x = simd::broadcast(from[r][i * of.a_p]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[r][v] += x * b[v];
      }
    }
    const std::int64_t count = std::min<std::int64_t>(rows, of.m - m);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      if (r >= count) break;
      const A factor = of.scale == nullptr ? of.factor : of.factor * of.scale[m + r];
      A row[columns];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        simd::store_vector(row + v * lanes, sums[r][v] * factor);
      A* const out = of.out + (m + r) * of.out_m + n;
      for (std::int64_t j = 0; j < width; ++j) out[j] += row[j];
    }
  }
};

}  // namespace trireme::kernels::host
