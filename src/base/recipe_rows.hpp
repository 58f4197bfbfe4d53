// The table of recipes, each a row: the deck's keys are bound to its rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/recipe.hpp"

namespace trireme {

namespace recipe_types {

constexpr Precision f64{DType::f64}, f32{DType::f32}, bf16{DType::bf16}, f16{DType::f16};

constexpr Precision e4m3(Scaling scaling) { return {DType::e4m3, scaling}; }
constexpr Precision e5m2(Scaling scaling) { return {DType::e5m2, scaling}; }

constexpr Precision e4m3_delayed = e4m3(Scaling::delayed);
constexpr Precision e5m2_delayed = e5m2(Scaling::delayed);
constexpr Precision e4m3_current = e4m3(Scaling::current);
constexpr Precision e5m2_current = e5m2(Scaling::current);
constexpr Precision e4m3_blocks = e4m3(Scaling::blocks);
constexpr Precision e4m3_mx = e4m3(Scaling::mx);

}  // namespace recipe_types

// Columns: activation, forward operand, backward operand, weight, master, gradient,
// gradient sum, moment 1, moment 2, gradient traffic, weight traffic, pipeline traffic,
// tensor traffic. Activations travel as they are. Gradients of FP8 (MS-AMP, FP8-LM,
// nanotron) and moments carry one scale for each tensor; nanotron's master weights, of 8
// bits, are rounded stochastically.
inline constexpr std::array recipe_rows = [] {
  using namespace recipe_types;
  return std::array{
      Recipe{"fp64",
             "everything in fp64, for proofs",
             {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64}},
      Recipe{"fp32",
             "everything in fp32",
             {f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32}},
      Recipe{"bf16",
             "bf16 weights and activations, products add to fp32 gradients",
             {bf16, bf16, bf16, bf16, f32, f32, f32, f32, f32, f32, bf16, bf16, bf16}},
      Recipe{
          "bf16_pure",
          "everything in bf16, without master weights",
          {bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16}},
      Recipe{"bf16_autocast",
             "fp32 weights, gradients and optimizer, products in bf16",
             {bf16, bf16, bf16, f32, f32, f32, f32, f32, f32, f32, f32, bf16, bf16}},
      Recipe{"bf16_fp32_sum",
             "bf16 gradients, summed in fp32 (Megatron-LM, nanotron)",
             {bf16, bf16, bf16, bf16, f32, bf16, f32, f32, f32, f32, bf16, bf16, bf16}},
      Recipe{"bf16_no_sum",
             "bf16 gradients, summed in bf16",
             {bf16, bf16, bf16, bf16, f32, bf16, bf16, f32, f32, bf16, bf16, bf16, bf16}},
      Recipe{"fp16",
             "fp16 with a dynamic loss scale (Micikevicius et al., 2018)",
             {f16, f16, f16, f16, f32, f32, f32, f32, f32, f32, f16, f16, f16}},
      Recipe{"te_delayed",
             "FP8 products as Transformer Engine's delayed scaling",
             {bf16, e4m3_delayed, e5m2_delayed, f32, f32, f32, f32, f32, f32, f32, f32,
              bf16, bf16}},
      Recipe{"te_current",
             "FP8 products as Transformer Engine's current scaling",
             {bf16, e4m3_current, e5m2_current, f32, f32, f32, f32, f32, f32, f32, f32,
              bf16, bf16}},
      Recipe{"te_blocks",
             "FP8 products scaled by blocks, otherwise as te_current",
             {bf16, e4m3_blocks, e4m3_blocks, f32, f32, f32, f32, f32, f32, f32, f32,
              bf16, bf16}},
      Recipe{
          "mxfp8",
          "FP8 products with a power of two for 32 numbers (OCP MX, 2023)",
          {bf16, e4m3_mx, e4m3_mx, f32, f32, f32, f32, f32, f32, f32, f32, bf16, bf16}},
      Recipe{"ms_amp_o1",
             "FP8 products, FP8 gradients and their reduction, fp16 weights (MS-AMP O1)",
             {bf16, e4m3_current, e5m2_current, f16, f16, e4m3_current, e4m3_current, f32,
              f32, e4m3_current, f16, bf16, bf16}},
      Recipe{"ms_amp_o2",
             "O1 with FP8 first and fp16 second moments (MS-AMP O2)",
             {bf16, e4m3_current, e5m2_current, f16, f16, e4m3_current, e4m3_current,
              e4m3_current, f16, e4m3_current, f16, bf16, bf16}},
      Recipe{"ms_amp_o3",
             "O2 with FP8 weights and fp16 master weights (MS-AMP O3)",
             {bf16, e4m3_current, e5m2_current, e4m3_current, f16, e4m3_current,
              e4m3_current, e4m3_current, f16, e4m3_current, e4m3_current, bf16, bf16}},
      Recipe{"fp8_lm",
             "FP8 weights and gradients, fp16 masters and sums (Peng et al., 2023)",
             {bf16, e4m3_current, e5m2_current, e4m3_current, f16, e4m3_current, f16,
              e4m3_current, f16, e4m3_current, e4m3_current, bf16, bf16}},
      Recipe{"deepseek_v3",
             "FP8 weights by blocks, bf16 moments (DeepSeek-AI, 2024)",
             {bf16, e4m3_blocks, e4m3_blocks, e4m3_blocks, f32, bf16, f32, bf16, bf16,
              bf16, e4m3_blocks, bf16, bf16}},
      Recipe{"nanotron_fp8",
             "FP8 weights, gradients and moments, bf16 master weights",
             {bf16, e4m3_current, e5m2_current, e4m3_current, bf16, e4m3_current, f32,
              e4m3_current, e4m3_current, bf16, e4m3_current, bf16, bf16},
             true},
  };
}();

// The row of a name. A name that is not in the table does not compile.
consteval const Recipe* recipe_row(std::string_view name) {
  for (const Recipe& recipe : recipe_rows)
    if (recipe.name == name) return &recipe;
  throw "there is no such recipe";
}

}  // namespace trireme
