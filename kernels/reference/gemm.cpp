// GEMM in plain double loops.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/gemm.hpp"

namespace trireme::kernels::reference {
namespace {

double element(const TensorView& t, std::int64_t at) {
  return visit_floating(t.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, double>) {
      return t.data<T>()[at];
    } else {
      return static_cast<double>(static_cast<float>(t.data<T>()[at]));
    }
  });
}

// op(t)[row, column]
double element(const TensorView& t, Transpose transpose, std::int64_t row,
               std::int64_t column) {
  return transpose == Transpose::yes ? element(t, column * t.stride(0) + row)
                                     : element(t, row * t.stride(0) + column);
}

}  // namespace

std::vector<double> gemm(const TensorView& c, const TensorView& a, Transpose transpose_a,
                         const TensorView& b, Transpose transpose_b,
                         Accumulate accumulate, const TensorView& bias) {
  const std::int64_t m = c.dim(0), n = c.dim(1);
  const std::int64_t k = a.dim(transpose_a == Transpose::yes ? 0 : 1);
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = accumulate == Accumulate::yes ? element(c, Transpose::no, i, j) : 0.0;
      if (!bias.empty()) sum += element(bias, j);
      for (std::int64_t l = 0; l < k; ++l)
        sum += element(a, transpose_a, i, l) * element(b, transpose_b, l, j);
      result.push_back(sum);
    }
  }
  return result;
}

}  // namespace trireme::kernels::reference
