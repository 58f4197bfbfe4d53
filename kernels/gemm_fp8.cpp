// gemm_fp8(): checks, and the product on a host through f32 (f64 for results of f64).
// SPDX-License-Identifier: Apache-2.0
// FP8 numbers times their scales are kept to 24 bits by it.
#include "kernels/checks.hpp"
#include "kernels/cuda/gemm/gemm.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/gemm.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/quantize.hpp"
#include "kernels/runtime/product_counts.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(dequantize);

namespace {

ProfileFamily family("gemm, fp8");

Scratch left("gemm_fp8 left"), right("gemm_fp8 right"), results("gemm_fp8 sums");

constexpr std::int64_t alignment = 16;  // bytes

void check_alignment(const char* name, const TensorView& view) {
  const auto start = reinterpret_cast<std::uintptr_t>(view.raw());
  require(start % alignment == 0, "gemm_fp8: {} must start at a multiple of {} bytes",
          name, alignment);
  if (view.shape().rank() != 2) return;
  const auto row = view.stride(0) * static_cast<std::int64_t>(size_of(view.dtype()));
  require(row % alignment == 0,
          "gemm_fp8: rows of {} are {} bytes apart, which is no multiple of {}: pad them",
          name, row, alignment);
}

void check_operand(const Checks& check, const char* name, const Fp8Matrix& x,
                   const Shape& shape) {
  check.tensor({name, x.codes}, DType::u8, shape);
  check.tensor({"scales", x.scales}, DType::f32,
               fp8_scales_shape(x.scaling, shape[0], shape[1]));
  check.dense({"scales", x.scales});
}

void check_scaling(const Fp8Matrix& a, const Fp8Matrix& b) {
  require(a.format == Fp8Format::e4m3 || b.format == Fp8Format::e4m3,
          "gemm_fp8: E5M2 x E5M2 is not provided: one of a and b must be E4M3");
  require((a.scaling == Fp8Scaling::tensor) == (b.scaling == Fp8Scaling::tensor),
          "gemm_fp8: one of a and b has one scale, the other one has scales by blocks");
  require((a.scaling == Fp8Scaling::row_32) == (b.scaling == Fp8Scaling::row_32),
          "gemm_fp8: one of a and b has a scale for 32 elements, the other one has not");
  require(a.scaling != Fp8Scaling::block_128 || b.scaling != Fp8Scaling::block_128,
          "gemm_fp8: a and b both have a scale for each 128 x 128: give one of them a "
          "scale for each 1 x 128");
}

void check_extents(const TensorView& c, const Fp8Matrix& a, const Fp8Matrix& b) {
  const std::int64_t M = c.dim(0), N = c.dim(1), K = a.codes.dim(1);
  require(K % 16 == 0 && N % 16 == 0,
          "gemm_fp8: K = {} and N = {} must be multiples of 16: pad the matrices", K, N);
  check_alignment("c", c);
  check_alignment("a", a.codes);
  check_alignment("b", b.codes);
  if (a.scaling == Fp8Scaling::tensor) return;
  require(a.scaling != Fp8Scaling::row_32 || K % mx_block == 0,
          "gemm_fp8: with a scale for 32 elements K = {} must be a multiple of 32", K);
  // Of cuBLASLt's second operand with a scale for each 1 x 128 (TransformerEngine).
  require(M % 8 == 0, "gemm_fp8: with scales by blocks M = {} must be a multiple of 8",
          M);
  check_alignment("a's scales", a.scales);
  check_alignment("b's scales", b.scales);
}

// The matrix as it is meant, in T.
template <class T>
TensorView decoded(Stream& stream, Scratch& scratch, const Fp8Matrix& x) {
  const Shape& shape = x.codes.shape();
  const TensorView y(scratch.take<T>(shape.elements()), dtype_of<T>, shape);
  host::dequantize(stream, x, y);
  return y;
}

void gemm_on_host(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
                  const Fp8Matrix& b_NK, Accumulate accumulate, Fp8Sums /*sums*/) {
  family.add(0);  // its time is that of the product in f32, which counts as such
  if (c.dtype() == DType::f64)
    return gemm(stream, c, decoded<double>(stream, left, a_MK), Transpose::no,
                decoded<double>(stream, right, b_NK), Transpose::yes, accumulate);
  const TensorView a = decoded<float>(stream, left, a_MK),
                   b = decoded<float>(stream, right, b_NK);
  if (c.dtype() == DType::f32)
    return gemm(stream, c, a, Transpose::no, b, Transpose::yes, accumulate);
  const TensorView result(results.take<float>(c.elements()), DType::f32, c.shape());
  gemm(stream, result, a, Transpose::no, b, Transpose::yes);
  visit_floating(c.dtype(), [&]<class T>(T) {
    const auto from = rows_of<const float>(result);
    const auto to = rows_of<T>(c);
    for_rows(
        "gemm_fp8.round", c.dim(0), c.dim(1), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            for (std::int64_t j = 0; j < c.dim(1); ++j) {
              const float before =
                  accumulate == Accumulate::yes ? static_cast<float>(to[i][j]) : 0.0f;
              to[i][j] = T(before + from[i][j]);
            }
          }
        });
  });
}

void gemm_on_gpu(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
                 const Fp8Matrix& b_NK, Accumulate accumulate, Fp8Sums sums) {
  require(a_MK.scaling != Fp8Scaling::row_32, Status::resources,
          "gemm_fp8: MXFP8 is not provided on a GPU");
  const ProfileScope scope(family);
  if (a_MK.codes.dim(1) > 0)
    try_on_cuda<cuda::gemm_fp8>(stream, c, a_MK, b_NK, accumulate, sums);
  else if (accumulate == Accumulate::no)
    try_on_cuda<cuda::fill_rows>(stream, TensorView(), c);
}

}  // namespace

void gemm_fp8(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
              const Fp8Matrix& b_NK, Accumulate accumulate, Fp8Sums sums) {
  const Checks check("gemm_fp8", stream);
  check.matrix({"c", c});
  require(c.dtype() != DType::f64 || !stream.device().is_cuda(),
          "gemm_fp8: results on a GPU are fp32, bf16 or fp16, not fp64");
  require(a_MK.codes.shape().rank() == 2 && b_NK.codes.shape().rank() == 2,
          "gemm_fp8 takes matrices, not {} x {}", a_MK.codes.shape(), b_NK.codes.shape());
  const std::int64_t M = c.dim(0), N = c.dim(1), K = a_MK.codes.dim(1);
  check_operand(check, "a", a_MK, {M, K});
  check_operand(check, "b", b_NK, {N, K});
  check_scaling(a_MK, b_NK);
  if (stream.device().is_meta()) {
    meter_product(stream, a_MK.format, M, N, K,
                  static_cast<double>(a_MK.codes.bytes() + b_NK.codes.bytes()) +
                      static_cast<double>(c.bytes()));
    return;
  }
  check_extents(c, a_MK, b_NK);
  if (M == 0 || N == 0) return;
  const CountedProduct counted(a_MK.format, b_NK.format, K > 0);
  run_kernel<gemm_on_host, gemm_on_gpu>(stream, c, a_MK, b_NK, accumulate, sums);
}

}  // namespace trireme::kernels
