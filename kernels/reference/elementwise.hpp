// Sums in double: the oracle of the elementwise kernels that are more than one operation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trireme::kernels::reference {

// Sum over the rows of x, whose rows have N elements.
std::vector<double> column_sums(std::span<const double> x_TN, std::size_t N);

double sum_of_squares(std::span<const double> x);

}  // namespace trireme::kernels::reference
