// Counts of matrix products by the types of their operands.
// SPDX-License-Identifier: Apache-2.0
// They prove that nothing multiplies in another type than its recipe says.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/dtype.hpp"

namespace trireme::kernels {

// Types of the left and the right operand.
using ProductTypes = std::pair<DType, DType>;

// Products that were asked for since start or the last reset: by gemm(), its fused forms,
// gemm_fp8() and, an expert at a time, or all at once where a GPU does so, the grouped
// ones.
// Products of no elements, and those of the meta device, are none.
const std::map<ProductTypes, std::int64_t>& product_counts();
void reset_product_counts();

// Counts one product for as long as it lives: those that it is made of count nothing. Not
// for concurrent use: kernels of a process are started by one thread.
class CountedProduct {
 public:
  // `any`: whether there is something to add up.
  CountedProduct(DType left, DType right, bool any = true);
  ~CountedProduct();
  CountedProduct(const CountedProduct&) = delete;
  CountedProduct& operator=(const CountedProduct&) = delete;
};

}  // namespace trireme::kernels
