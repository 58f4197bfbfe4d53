// A log of the products that a host made: shapes, paths, times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/path.hpp"

namespace trireme::kernels {

struct LoggedProduct {
  Product product;
  ProductPath path = ProductPath::blas;
  std::int64_t calls = 0;
  double seconds = 0;  // of all calls
};

// Whether products of hosts are logged from now on; both empty the log. At first they are
// not. Not for concurrent use, as the kernels themselves.
void start_product_log();
void stop_product_log();
// Those made since the start of the log, the longest first.
std::vector<LoggedProduct> product_log();

// For gemm(): multiply_by() with the path that the rule chooses, logged.
void multiply_logged(const TensorView& c, const TensorView& a, Transpose transpose_a,
                     const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                     const TensorView& bias);

// FLOP/s of such a product by that path, alone and repeated for about `seconds`, on
// operands of its own, whose rows are dense.
double product_rate(const Product& product, ProductPath path, double seconds);

}  // namespace trireme::kernels
