// Elementwise kernels in double: the oracle of the tests.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/elementwise.hpp"

namespace trireme::kernels::reference {

std::vector<double> column_sums(std::span<const double> x_TN, std::size_t N) {
  std::vector<double> sums(N);
  for (std::size_t i = 0; i < x_TN.size(); ++i) sums[i % N] += x_TN[i];
  return sums;
}

double sum_of_squares(std::span<const double> x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}

}  // namespace trireme::kernels::reference
