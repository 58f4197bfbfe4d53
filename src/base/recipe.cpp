// The table of recipes.
// SPDX-License-Identifier: Apache-2.0
#include "base/recipe.hpp"

#include <string>

namespace trireme {

namespace {

constexpr Precision f64{DType::f64}, f32{DType::f32}, bf16{DType::bf16}, f16{DType::f16};

constexpr Precision e4m3(Scaling scaling) { return {DType::e4m3, scaling}; }
constexpr Precision e5m2(Scaling scaling) { return {DType::e5m2, scaling}; }

constexpr Precision e4m3_delayed = e4m3(Scaling::delayed);
constexpr Precision e5m2_delayed = e5m2(Scaling::delayed);
constexpr Precision e4m3_current = e4m3(Scaling::current);
constexpr Precision e5m2_current = e5m2(Scaling::current);
constexpr Precision e4m3_blocks = e4m3(Scaling::blocks);
constexpr Precision e4m3_mx = e4m3(Scaling::mx);

// Columns: activation, forward operand, backward operand, weight, master, gradient,
// gradient sum, moment 1, moment 2, gradient traffic, weight traffic, pipeline traffic,
// tensor traffic. Activations travel as they are. Gradients of FP8 (MS-AMP, FP8-LM,
// nanotron) and moments carry one scale for each tensor; nanotron's master weights, of 8
// bits, are rounded stochastically.
constexpr std::array table = {
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
           {bf16, e4m3_blocks, e4m3_blocks, f32, f32, f32, f32, f32, f32, f32, f32, bf16,
            bf16}},
    Recipe{"mxfp8",
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
           {bf16, e4m3_blocks, e4m3_blocks, e4m3_blocks, f32, bf16, f32, bf16, bf16, bf16,
            e4m3_blocks, bf16, bf16}},
    Recipe{"nanotron_fp8",
           "FP8 weights, gradients and moments, bf16 master weights",
           {bf16, e4m3_current, e5m2_current, e4m3_current, bf16, e4m3_current, f32,
            e4m3_current, e4m3_current, bf16, e4m3_current, bf16, bf16},
           true},
};

}  // namespace

std::string_view name_of(TensorClass what) {
  constexpr std::array<std::string_view, tensor_classes> names = {
      "activations",    "forward operands", "backward operands", "weights",
      "master weights", "gradients",        "gradient sums",     "first moments",
      "second moments", "gradient traffic", "weight traffic",    "pipeline traffic",
      "tensor traffic"};
  return names[static_cast<std::size_t>(what)];
}

std::string_view name_of(Scaling scaling) {
  constexpr std::array<std::string_view, 5> names = {"none", "delayed", "current",
                                                     "blocks", "mx"};
  return names[static_cast<std::size_t>(scaling)];
}

bool Recipe::fp8() const { return is_fp8((*this)[TensorClass::forward_operand].type); }

double Recipe::bytes_per_parameter(int moments) const {
  const auto size = [&](TensorClass what) {
    return static_cast<double>(size_of((*this)[what].type));
  };
  const auto same = [&](TensorClass a, TensorClass b) {
    return (*this)[a] == (*this)[b];
  };
  double bytes = size(TensorClass::weight) + size(TensorClass::gradient);
  if (moments > 0) bytes += size(TensorClass::moment1);
  if (moments > 1) bytes += size(TensorClass::moment2);
  if (!same(TensorClass::weight, TensorClass::master)) bytes += size(TensorClass::master);
  if (!same(TensorClass::gradient, TensorClass::gradient_sum))
    bytes += size(TensorClass::gradient_sum);
  return bytes;
}

std::span<const Recipe> recipes() { return table; }

const Recipe& recipe_named(std::string_view name) {
  std::string all;
  for (const Recipe& recipe : table) {
    if (recipe.name == name) return recipe;
    all += (all.empty() ? "" : ", ") + std::string(recipe.name);
  }
  fail(Status::bad_content, "there is no recipe {}; there are {}", name, all);
}

}  // namespace trireme
