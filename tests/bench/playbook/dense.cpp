// Cholesky's decomposition, in the order of rows.
// SPDX-License-Identifier: Apache-2.0
#include "bench/playbook/dense.hpp"

#include <cmath>

#include "base/error.hpp"

namespace trireme::bench {

std::vector<double> solve_positive(SquareMatrix a, std::vector<double> b) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a(i, j);
      for (std::size_t k = 0; k < j; ++k) sum -= a(i, k) * a(j, k);
      if (i > j) {
        a(i, j) = sum / a(j, j);
        continue;
      }
      require(sum > 0, "the matrix of {} equations is not positive in row {}", n, i);
      a(i, i) = std::sqrt(sum);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a(i, k) * b[k];
    b[i] /= a(i, i);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a(k, i) * b[k];
    b[i] /= a(i, i);
  }
  return b;
}

}  // namespace trireme::bench
