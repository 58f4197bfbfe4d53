// Counts of matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/product_counts.hpp"

namespace trireme::kernels {
namespace {

std::map<ProductTypes, std::int64_t> counts;
int depth = 0;

}  // namespace

const std::map<ProductTypes, std::int64_t>& product_counts() { return counts; }
void reset_product_counts() { counts.clear(); }

CountedProduct::CountedProduct(DType left, DType right, bool any) {
  if (depth++ == 0 && any) ++counts[{left, right}];
}

CountedProduct::~CountedProduct() { --depth; }

}  // namespace trireme::kernels
