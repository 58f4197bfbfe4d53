// The rule that chooses a product's path, and the paths.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/path.hpp"

#include <array>

#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_product.hpp"
#include "kernels/gemm/blas.hpp"
#include "kernels/gemm/convert.hpp"
#include "kernels/gemm/converted.hpp"
#include "kernels/gemm/few_rows.hpp"
#include "kernels/gemm/onednn.hpp"
#include "kernels/gemm/row_products.hpp"

namespace trireme::kernels {
namespace {

// oneDNN's primitive is the faster for a batch of generated tokens.
constexpr std::int64_t most_primitive_rows = 64;

bool takes(ProductPath path, const Product& product) {
  switch (path) {
    case ProductPath::blas: return product.operands == DType::f64;
    case ProductPath::few_rows:
      return (product.operands == DType::f32 || product.operands == DType::bf16) &&
             product.m <= most_few_rows && !product.transposed_left &&
             product.transposed_right;
    case ProductPath::amx: return product.operands == DType::bf16 && has_amx();
    case ProductPath::bf16: return product.operands == DType::bf16 && has_bf16_products();
    case ProductPath::primitive:
    case ProductPath::sgemm: return product.operands == DType::f32;
    case ProductPath::converted:
      return product.operands == DType::bf16 || product.operands == DType::f16;
    case ProductPath::by_rows: return !product.transposed_left;
  }
  return false;
}

void multiply_f32_by(ProductPath path, Product product, const TensorView& c,
                     const TensorView& a, const TensorView& b, const TensorView& bias) {
  if (product.bias) {  // on every row first: then the product is added
    fill_rows(bias.data<float>(), part(c, 0, 0, product.m, product.n));
    product.accumulate = true;
    product.bias = false;
  }
  const auto run = path == ProductPath::primitive ? multiply_by_primitive : multiply_f32;
  run(product, a.data<float>(), b.data<float>(), c.data<float>());
}

}  // namespace

std::string_view name_of(ProductPath path) {
  constexpr std::array<std::string_view, product_paths> names = {
      "BLAS",          "few rows",     "AMX tiles",    "bf16 instruction",
      "oneDNN matmul", "oneDNN sgemm", "through fp32", "independent rows"};
  return names[static_cast<std::size_t>(path)];
}

Product product_of(const TensorView& c, const TensorView& a, Transpose transpose_a,
                   const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                   const TensorView& bias) {
  return {.m = c.dim(0),
          .n = c.dim(1),
          .k = a.dim(transpose_a == Transpose::yes ? 0 : 1),
          .a_stride = a.stride(0),
          .b_stride = b.stride(0),
          .c_stride = c.stride(0),
          .operands = a.dtype(),
          .result = c.dtype(),
          .transposed_left = transpose_a == Transpose::yes,
          .transposed_right = transpose_b == Transpose::yes,
          .accumulate = accumulate == Accumulate::yes,
          .bias = !bias.empty()};
}

ProductPath choose_path(const Product& product) {
  using enum ProductPath;
  if (independent_rows() && takes(by_rows, product)) return by_rows;
  for (const ProductPath path : {blas, few_rows, amx, bf16, converted})
    if (takes(path, product) && (path != bf16 || bf16_products_pay())) return path;
  const bool few = product.m > 1 && product.m <= most_primitive_rows;
  return few && !product.transposed_left && is_fast(product) ? primitive : sgemm;
}

std::string_view why_slow(const Product& product) {
  if (choose_path(product) != ProductPath::converted) return {};
  if (product.operands == DType::f16) return "no processor of ours multiplies fp16";
  return has_bf16_products() ? "this processor's products of bf16 are slower than of fp32"
                             : "this processor has no products of bf16";
}

std::vector<ProductPath> paths_of(const Product& product) {
  using enum ProductPath;
  std::vector<ProductPath> paths = {choose_path(product)};
  for (const ProductPath path :
       {blas, few_rows, amx, bf16, primitive, sgemm, converted, by_rows})
    if (path != paths.front() && takes(path, product)) paths.push_back(path);
  return paths;
}

void multiply_by(ProductPath path, const TensorView& c, const TensorView& a,
                 Transpose transpose_a, const TensorView& b, Transpose transpose_b,
                 Accumulate accumulate, const TensorView& bias) {
  const Product product = product_of(c, a, transpose_a, b, transpose_b, accumulate, bias);
  require(takes(path, product), "gemm: {} does not make [{}, {}] K {} of {}",
          name_of(path), product.m, product.n, product.k, name_of(product.operands));
  switch (path) {
    case ProductPath::blas:
      return gemm_f64(c, a, transpose_a, b, transpose_b, accumulate, bias);
    case ProductPath::few_rows: return gemm_few_rows(c, a, b, accumulate, bias);
    case ProductPath::amx:
      return gemm_amx(c, a, transpose_a, b, transpose_b, accumulate, bias);
    case ProductPath::bf16:
      return gemm_bf16(c, a, transpose_a, b, transpose_b, accumulate, bias);
    case ProductPath::primitive:
    case ProductPath::sgemm: return multiply_f32_by(path, product, c, a, b, bias);
    case ProductPath::converted:
      return gemm_converted(c, a, transpose_a, b, transpose_b, accumulate, bias);
    case ProductPath::by_rows:
      return gemm_by_rows(c, a, b, transpose_b, accumulate, bias);
  }
}

}  // namespace trireme::kernels
