// The products of all experts in one launch. Legend: kernels/moe.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// As the functions of kernels/moe.hpp, of checked arguments. False, and nothing is done,
// where a product for each expert serves better: for types other than bf16 and fp16, rows
// that do not start at multiples of 16 bytes, and experts with so many rows that each
// product fills the GPU by itself, which cuBLASLt does faster (unless rows are to be
// independent, as those of the one launch are). The answer depends on that, on shapes,
// counts and alignments alone.
bool grouped_linear(Stream& stream, std::span<const std::int32_t> rows_E,
                    const TensorView& x_RI, const TensorView& weights_EOI,
                    const TensorView& y_RO);
bool grouped_linear_input_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                   const TensorView& dy_RO, const TensorView& weights_EOI,
                                   const TensorView& dx_RI);
bool grouped_linear_weight_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                    const TensorView& dy_RO, const TensorView& x_RI,
                                    const TensorView& dweights_EOI);

}  // namespace trireme::kernels::cuda
