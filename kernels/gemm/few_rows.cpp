// Dot products of a few rows of A with every row of B, at the memory's rate.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/few_rows.hpp"

#include <algorithm>

#include "kernels/gemm/few_rows_loop.hpp"
#include "kernels/gemm/finish.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

template <class T, class C>
void multiply(const TensorView& c, const TensorView& a, const TensorView& b_NK,
              Accumulate accumulate, const TensorView& bias) {
  constexpr std::int64_t elements = 1 << 16;  // of B, worth a thread's work
  const few_rows::Rows<T> product{a.data<T>(), b_NK.data<T>(), a.stride(0),
                                  b_NK.stride(0), a.dim(1)};
  const Finish<T, C> finish(c, accumulate, bias);
  for_ranges("gemm.few_rows", b_NK.dim(0),
             std::max<std::int64_t>(1, elements / product.k), threads(),
             [&](std::int64_t begin, std::int64_t end) {
               few_rows::with_rows(a.dim(0), [&]<int rows>() {
                 product.template run<rows>(begin, end, finish);
               });
             });
}

}  // namespace

void gemm_few_rows(const TensorView& c, const TensorView& a, const TensorView& b_NK,
                   Accumulate accumulate, const TensorView& bias) {
  const bool f32 = c.dtype() == DType::f32;
  if (a.dtype() == DType::f32)
    return multiply<float, float>(c, a, b_NK, accumulate, bias);
  if (f32) return multiply<BFloat16, float>(c, a, b_NK, accumulate, bias);
  multiply<BFloat16, BFloat16>(c, a, b_NK, accumulate, bias);
}

}  // namespace trireme::kernels
