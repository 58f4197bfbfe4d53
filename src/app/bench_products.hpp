// The table of `trireme bench DECK --products`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm/product_log.hpp"

namespace trireme::app {

// A line for each product of `steps` steps, the one that takes longest first: which of
// the three of a linear layer it is, its extents, path, times a step, its rate in the
// program (GFLOP/s), the rate alone, and that of the best other path. Where the path is
// slow, the last column says why. Products that differ in the number of tokens alone, as
// those of experts do, share a line; of these the longest is timed alone. Each product
// alone is timed for `seconds`, on every path, by the calling process.
std::string table_of_products(const std::vector<kernels::LoggedProduct>& products,
                              std::int64_t steps, double seconds);

}  // namespace trireme::app
