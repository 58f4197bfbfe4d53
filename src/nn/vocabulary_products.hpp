// The head's three products, cut on a GPU where the vocabulary has an odd extent.
// SPDX-License-Identifier: Apache-2.0
// Legend: C tokens of a chunk, V vocabulary entries on this rank, D width.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/gemm.hpp"

namespace trireme::nn {

// Entries of the first of the two products that each of them is made of; V where it is
// made whole. On a GPU a product is fast where the extents along which its operands and
// its result lie in memory are multiples of 16 bytes: V is such an extent of the logits,
// which all three read or write. The cut is at the last multiple of 64 entries, where
// rows are many enough that a second launch is nothing. Hosts cut nothing.
std::int64_t vocabulary_cut(Device device, std::int64_t rows, std::int64_t V);

// logits_CV = h_CD W_VD^T
void vocabulary_logits(Stream& stream, const TensorView& h_CD,
                       const TensorView& weight_VD, const TensorView& logits_CV);
// dh_CD = dlogits_CV W_VD. Of a product that is cut, what the entries behind the cut give
// is rounded once more.
void vocabulary_input_gradient(Stream& stream, const TensorView& dlogits_CV,
                               const TensorView& weight_VD, const TensorView& dh_CD);
// gradient_VD = dlogits_CV^T h_CD, or += it
void vocabulary_weight_gradient(Stream& stream, const TensorView& dlogits_CV,
                                const TensorView& h_CD, const TensorView& gradient_VD,
                                kernels::Accumulate accumulate);

}  // namespace trireme::nn
