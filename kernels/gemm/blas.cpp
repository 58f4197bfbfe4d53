// Products by BLAS's dgemm.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/blas.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

// Fortran's dgemm, which every BLAS has: declared here so that no vendor's header is
// needed.
extern "C" void dgemm_(const char* transpose_a, const char* transpose_b, const int* m,
                       const int* n, const int* k, const double* alpha, const double* a,
                       const int* a_stride, const double* b, const int* b_stride,
                       const double* beta, double* c, const int* c_stride);

namespace trireme::kernels {
namespace {

int narrow(std::int64_t value) {
  require(value <= std::numeric_limits<int>::max(), "{} exceeds BLAS's 32-bit extents",
          value);
  return static_cast<int>(value);
}

}  // namespace

void gemm_f64(const TensorView& c, const TensorView& a, Transpose transpose_a,
              const TensorView& b, Transpose transpose_b, Accumulate accumulate,
              const TensorView& bias) {
  if (!bias.empty()) {
    for (std::int64_t i = 0; i < c.dim(0); ++i)
      std::copy_n(bias.data<double>(), c.dim(1), c.data<double>() + i * c.stride(0));
  }
  // A row-major matrix is its transpose in Fortran's order: C^T = op(B)^T op(A)^T.
  const char first = transpose_b == Transpose::yes ? 'T' : 'N';
  const char second = transpose_a == Transpose::yes ? 'T' : 'N';
  const int rows = narrow(c.dim(1)), columns = narrow(c.dim(0));
  const int inner = narrow(a.dim(transpose_a == Transpose::yes ? 0 : 1));
  // A matrix of one row may have any stride, but BLAS insists on at least its width.
  const auto leading = [](const TensorView& t) {
    return narrow(std::max(t.stride(0), t.dim(1)));
  };
  const int a_stride = leading(a), b_stride = leading(b), c_stride = leading(c);
  const double alpha = 1.0;
  const double beta = accumulate == Accumulate::yes || !bias.empty() ? 1.0 : 0.0;
  dgemm_(&first, &second, &rows, &columns, &inner, &alpha, b.data<double>(), &b_stride,
         a.data<double>(), &a_stride, &beta, c.data<double>(), &c_stride);
}

}  // namespace trireme::kernels
