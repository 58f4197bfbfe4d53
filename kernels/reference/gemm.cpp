// GEMM in plain double loops.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/gemm.hpp"

#include <cstddef>
#include <type_traits>

namespace trireme::kernels::reference {
namespace {

// op(t), row by row.
std::vector<double> elements(const TensorView& t, Transpose transpose = Transpose::no) {
  const std::int64_t rows = t.dim(0), columns = t.dim(1);
  std::vector<double> out(static_cast<std::size_t>(rows * columns));
  visit_floating(t.dtype(), [&](auto type) {
    using T = decltype(type);
    using Exact = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        out[static_cast<std::size_t>(transpose == Transpose::yes ? j * rows + i
                                                                 : i * columns + j)] =
            static_cast<Exact>(t.data<T>()[i * t.stride(0) + j]);
  });
  return out;
}

}  // namespace

std::vector<double> gemm(const TensorView& c, const TensorView& a, Transpose transpose_a,
                         const TensorView& b, Transpose transpose_b,
                         Accumulate accumulate, const TensorView& bias) {
  const auto m = static_cast<std::size_t>(c.dim(0));
  const auto n = static_cast<std::size_t>(c.dim(1));
  const auto k = static_cast<std::size_t>(a.dim(transpose_a == Transpose::yes ? 0 : 1));
  const auto left = elements(a, transpose_a), right = elements(b, transpose_b);
  std::vector<double> result(m * n);
  if (accumulate == Accumulate::yes) result = elements(c);
  const auto start =
      bias.empty() ? std::vector<double>(n) : elements(bias.reshape({1, bias.dim(0)}));
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) result[i * n + j] += start[j];
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < n; ++j)
        result[i * n + j] += left[i * k + l] * right[l * n + j];
  }
  return result;
}

}  // namespace trireme::kernels::reference
