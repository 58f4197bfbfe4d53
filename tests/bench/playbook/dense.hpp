// Small dense systems of equations with a symmetric positive matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::bench {

// Rows one after the other. Of a symmetric matrix the lower half is read.
class SquareMatrix {
 public:
  explicit SquareMatrix(std::size_t size) : size_(size), values_(size * size) {}
  std::size_t size() const { return size_; }
  double& operator()(std::size_t row, std::size_t column) {
    return values_[row * size_ + column];
  }
  double operator()(std::size_t row, std::size_t column) const {
    return values_[row * size_ + column];
  }

 private:
  std::size_t size_;
  std::vector<double> values_;
};

// x of A x = b, by Cholesky's decomposition. Cost: n^3 / 6 products.
// Throws Error(internal) if A is not positive.
std::vector<double> solve_positive(SquareMatrix a, std::vector<double> b);

}  // namespace trireme::bench
