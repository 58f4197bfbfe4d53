// The table of kernels' checks, each a row: what is checked, by what, in which types.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>

#include "selftest/check.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

constexpr std::array every = {DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr std::array wide = {DType::f64, DType::f32};
constexpr std::array half = {DType::bf16, DType::f16};
constexpr std::array single = {DType::f32};
constexpr std::array twice = {DType::f64};
constexpr std::array fp8 = {DType::e4m3, DType::e5m2};

struct Row {
  const char* name;
  void (*run)(Probe&, DType);
  std::span<const DType> types;
};

constexpr std::array rows = {
    Row{"sums", check_sums, every},
    Row{"copies", check_copies, every},
    Row{"reductions", check_reductions, every},
    Row{"sums in memory", check_sums_in_memory, every},
    Row{"soft cap", check_soft_cap, every},
    Row{"dropout", check_dropout, every},
    Row{"activations", check_activations, every},
    Row{"norms", check_norms, every},
    Row{"norms of sums", check_norms_of_sums, every},
    Row{"norms in parts", check_split_norms, every},
    Row{"rotary positions", check_rope, every},
    Row{"rotary tables", check_rope_tables, wide},
    Row{"embedding", check_embedding, every},
    Row{"cross-entropy", check_cross_entropy, every},
    Row{"initial weights", check_initial_weights, wide},
    Row{"attention", check_attention, every},
    Row{"attention, documents", check_attention_documents, every},
    Row{"attention, parts", check_attention_parts, every},
    Row{"attention, paged", check_paged_attention, every},
    Row{"attention, cached", check_cached_attention, every},
    Row{"attention, sinks", check_sinks, every},
    Row{"attention, first positions", check_first_positions, single},
    Row{"columns of heads", check_heads, every},
    Row{"attention, cuDNN and own", check_attention_libraries, half},
    Row{"delta rule", check_delta_rule, every},
    Row{"delta gates", check_delta_gates, every},
    Row{"causal convolution", check_causal_conv, every},
    Row{"router", check_router, wide},
    Row{"router, backward", check_router_backward, wide},
    Row{"router, limits", check_router_limits, wide},
    Row{"expert rows", check_expert_rows, every},
    Row{"expert products", check_expert_products, every},
    Row{"optimizers", check_optimizers, wide},
    Row{"optimizer sweep", check_update_sweep, wide},
    Row{"orthogonal factors", check_orthogonalize, wide},
    Row{"step decision", check_step_decision, twice},
    Row{"quantize", check_quantize, every},
    Row{"quantize and transpose", check_both_quantized_orders, every},
    Row{"quantize, losses", check_quantization_losses, every},
    Row{"transpose", check_transpose, every},
    Row{"fp8 blocks", check_fp8_blocks, single},
    Row{"stochastic rounding", check_stochastic_rounding, single},
    Row{"rounding losses", check_rounding_losses, single},
    Row{"square roots", check_square_roots, single},
    Row{"products", check_products, every},
    Row{"products, independent rows", check_row_products, every},
    Row{"products into fp32", check_wide_products, half},
    Row{"product, bias and activation", check_product_activation, every},
    Row{"product, derivative", check_product_derivative, every},
    Row{"product, bias gradient", check_product_bias_gradient, every},
    Row{"numbers of codes", check_code_numbers, every},
    Row{"codes of 4 bits", check_four_bit_codes, every},
    Row{"codes of 8 bits", check_dynamic_codes, single},
    Row{"codes of scales", check_codes_of_absmax, single},
    Row{"products with codes", check_code_products, every},
    Row{"fp8 products, e4m3 and", check_fp8_products, fp8},
    Row{"fp8 products by blocks, e4m3 and", check_fp8_block_products, fp8},
};

}  // namespace

std::vector<Check> kernel_checks() {
  std::vector<Check> checks;
  for (const Row& row : rows)
    for (const DType type : row.types)
      checks.push_back({format("{} {}", row.name, name_of(type)),
                        [&row, type](Probe& probe) { row.run(probe, type); }});
  return checks;
}

}  // namespace trireme::selftest
