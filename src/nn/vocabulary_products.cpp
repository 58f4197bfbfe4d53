// The head's products, whole or in two parts.
// SPDX-License-Identifier: Apache-2.0
// The conditions are those of cuBLAS's documentation ("Tensor Core Usage"), with its
// columns first: op(A) [m, k] and op(B) [k, n] want m or k, and k or n, whichever lies
// along memory, and C wants m at multiples of 16 bytes. For the logits m = V, for the
// input's gradient k = V of B, for the weight's n = V of a transposed B: each is one.
#include "nn/vocabulary_products.hpp"

#include "kernels/gemm.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {
namespace {

constexpr std::int64_t multiple = 64;  // entries: a tile of every product
constexpr std::int64_t aligned = 8;    // entries in 16 bytes, of 16-bit types
// Below these the part that is slow costs less than a launch.
constexpr std::int64_t least_entries = 1024, least_rows = 64;

struct Parts {
  std::int64_t first, rest;
};
Parts parts_of(const Stream& stream, const TensorView& logits_CV) {
  const std::int64_t V = logits_CV.dim(1);
  const std::int64_t first = vocabulary_cut(stream.device(), logits_CV.dim(0), V);
  return {first, V - first};
}

}  // namespace

std::int64_t vocabulary_cut(Device device, std::int64_t rows, std::int64_t V) {
  const bool cut =
      device.is_cuda() && V % aligned != 0 && V >= least_entries && rows >= least_rows;
  return cut ? V / multiple * multiple : V;
}

void vocabulary_logits(Stream& stream, const TensorView& h_CD,
                       const TensorView& weight_VD, const TensorView& logits_CV) {
  const auto [first, rest] = parts_of(stream, logits_CV);
  linear(stream, h_CD, weight_VD.rows(0, first), {}, logits_CV.columns(0, first));
  if (rest == 0) return;
  linear(stream, h_CD, weight_VD.rows(first, rest), {}, logits_CV.columns(first, rest));
}

// The few entries come first: their sum, not that of the many, is rounded in between.
void vocabulary_input_gradient(Stream& stream, const TensorView& dlogits_CV,
                               const TensorView& weight_VD, const TensorView& dh_CD) {
  const auto [first, rest] = parts_of(stream, dlogits_CV);
  if (rest == 0) return linear_input_gradient(stream, dlogits_CV, weight_VD, dh_CD);
  using kernels::Accumulate, kernels::Transpose;
  linear_input_gradient(stream, dlogits_CV.columns(first, rest),
                        weight_VD.rows(first, rest), dh_CD);
  kernels::gemm(stream, dh_CD, dlogits_CV.columns(0, first), Transpose::no,
                weight_VD.rows(0, first), Transpose::no, Accumulate::yes);
}

void vocabulary_weight_gradient(Stream& stream, const TensorView& dlogits_CV,
                                const TensorView& h_CD, const TensorView& gradient_VD,
                                kernels::Accumulate accumulate) {
  const auto [first, rest] = parts_of(stream, dlogits_CV);
  linear_weight_gradient(stream, dlogits_CV.columns(0, first), h_CD,
                         gradient_VD.rows(0, first), accumulate);
  if (rest == 0) return;
  linear_weight_gradient(stream, dlogits_CV.columns(first, rest), h_CD,
                         gradient_VD.rows(first, rest), accumulate);
}

}  // namespace trireme::nn
