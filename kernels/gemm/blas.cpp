// Products by BLAS's dgemm and sgemm.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/blas.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/error.hpp"

// Fortran's calls, which every BLAS has: declared here so that no vendor's header is
// needed.
extern "C" {
void dgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
            const int* k, const double* alpha, const double* a, const int* a_stride,
            const double* b, const int* b_stride, const double* beta, double* c,
            const int* c_stride);
void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
            const int* k, const float* alpha, const float* a, const int* a_stride,
            const float* b, const int* b_stride, const float* beta, float* c,
            const int* c_stride);
}

namespace trireme::kernels {
namespace {

int narrow(std::int64_t value) {
  require(value <= std::numeric_limits<int>::max(), "{} exceeds BLAS's 32-bit extents",
          value);
  return static_cast<int>(value);
}

template <class T>
void run(const TensorView& c, const TensorView& a, Transpose transpose_a,
         const TensorView& b, Transpose transpose_b, Accumulate accumulate,
         const TensorView& bias) {
  if (!bias.empty()) {
    for (std::int64_t i = 0; i < c.dim(0); ++i)
      std::copy_n(bias.data<T>(), c.dim(1), c.data<T>() + i * c.stride(0));
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
  const T alpha = 1;
  const T beta = accumulate == Accumulate::yes || !bias.empty() ? 1 : 0;
  const auto call = [&](auto* function) {
    function(&first, &second, &rows, &columns, &inner, &alpha, b.data<T>(), &b_stride,
             a.data<T>(), &a_stride, &beta, c.data<T>(), &c_stride);
  };
  if constexpr (std::is_same_v<T, double>) {
    call(dgemm_);
  } else {
    call(sgemm_);
  }
}

}  // namespace

void gemm_blas(const TensorView& c, const TensorView& a, Transpose transpose_a,
               const TensorView& b, Transpose transpose_b, Accumulate accumulate,
               const TensorView& bias) {
  if (a.dtype() == DType::f64) {
    run<double>(c, a, transpose_a, b, transpose_b, accumulate, bias);
  } else {
    run<float>(c, a, transpose_a, b, transpose_b, accumulate, bias);
  }
}

bool blas_is_tuned() {
  static const bool tuned = [] {
    // OpenBLAS's answer: 0 serial, 1 its own threads, 2 OpenMP's.
    auto* const parallel =
        reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
    return parallel != nullptr && parallel() == 2;
  }();
  return tuned;
}

}  // namespace trireme::kernels
