// The checks of kernels, a function each: what a family computes against its oracle.
// SPDX-License-Identifier: Apache-2.0
// Each runs on the probe's device in one type, at a few awkward sizes, and says where its
// bound comes from. kernel_table.cpp names them.
#pragma once

#include "selftest/probe.hpp"

namespace trireme::selftest {

// Of row-wise and elementwise kernels.
void check_sums(Probe& probe, DType dtype);
void check_copies(Probe& probe, DType dtype);
void check_reductions(Probe& probe, DType dtype);
void check_sums_in_memory(Probe& probe, DType dtype);
void check_soft_cap(Probe& probe, DType dtype);
void check_dropout(Probe& probe, DType dtype);
void check_activations(Probe& probe, DType dtype);
void check_norms(Probe& probe, DType dtype);
void check_norms_of_sums(Probe& probe, DType dtype);
void check_split_norms(Probe& probe, DType dtype);
void check_rope(Probe& probe, DType dtype);
void check_rope_tables(Probe& probe, DType dtype);
void check_embedding(Probe& probe, DType dtype);
void check_cross_entropy(Probe& probe, DType dtype);
void check_initial_weights(Probe& probe, DType dtype);

// Of attention.
void check_attention(Probe& probe, DType dtype);
void check_attention_documents(Probe& probe, DType dtype);
void check_attention_parts(Probe& probe, DType dtype);
void check_paged_attention(Probe& probe, DType dtype);
void check_cached_attention(Probe& probe, DType dtype);
void check_heads(Probe& probe, DType dtype);
void check_sinks(Probe& probe, DType dtype);
void check_first_positions(Probe& probe, DType dtype);
void check_delta_rule(Probe& probe, DType dtype);
void check_delta_gates(Probe& probe, DType dtype);
void check_causal_conv(Probe& probe, DType dtype);
void check_attention_libraries(Probe& probe, DType dtype);

// Of experts.
void check_router(Probe& probe, DType dtype);
void check_router_backward(Probe& probe, DType dtype);
void check_router_limits(Probe& probe, DType dtype);
void check_expert_rows(Probe& probe, DType dtype);
void check_expert_products(Probe& probe, DType dtype);

// Of the optimizer and of numbers in few bits.
void check_optimizers(Probe& probe, DType dtype);
void check_update_sweep(Probe& probe, DType dtype);
void check_orthogonalize(Probe& probe, DType dtype);
void check_step_decision(Probe& probe, DType dtype);
void check_quantize(Probe& probe, DType dtype);
void check_both_quantized_orders(Probe& probe, DType dtype);
void check_quantization_losses(Probe& probe, DType dtype);
void check_transpose(Probe& probe, DType dtype);
void check_fp8_blocks(Probe& probe, DType dtype);
void check_stochastic_rounding(Probe& probe, DType dtype);
void check_rounding_losses(Probe& probe, DType dtype);
void check_square_roots(Probe& probe, DType dtype);

// Of matrices of codes.
void check_four_bit_codes(Probe& probe, DType dtype);
void check_dynamic_codes(Probe& probe, DType dtype);
void check_codes_of_absmax(Probe& probe, DType dtype);
void check_code_numbers(Probe& probe, DType dtype);
void check_code_products(Probe& probe, DType dtype);

// Of matrix products.
void check_products(Probe& probe, DType dtype);
void check_row_products(Probe& probe, DType dtype);
void check_wide_products(Probe& probe, DType dtype);
void check_product_activation(Probe& probe, DType dtype);
void check_product_derivative(Probe& probe, DType dtype);
void check_product_bias_gradient(Probe& probe, DType dtype);
void check_fp8_products(Probe& probe, DType dtype);
void check_fp8_block_products(Probe& probe, DType dtype);

}  // namespace trireme::selftest
