// FP8 quantization: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(amax);
TRIREME_BACK_ENDS(amax_so_far);
TRIREME_BACK_ENDS(scale_of_amax);
TRIREME_BACK_ENDS(quantize);
TRIREME_BACK_ENDS(quantize_and_transpose);
TRIREME_BACK_ENDS(transpose);
TRIREME_BACK_ENDS(count_losses);
TRIREME_BACK_ENDS(dequantize);

namespace {

ProfileFamily family("quantize");

void check_fp8(const Checks& check, const Fp8Matrix& x, const Shape& shape) {
  check.tensor({"codes", x.codes}, DType::u8, shape);
  check.tensor({"scales", x.scales}, DType::f32,
               fp8_scales_shape(x.scaling, shape[0], shape[1]));
  check.dense({"scales", x.scales});
}

void check_amax(const Checks& check, const TensorView& x, const TensorView& amax_1) {
  check.floating({"x", x});
  check.dense_or_matrix({"x", x});
  check.tensor({"amax", amax_1}, DType::f32, {1});
}

}  // namespace

void amax(Stream& stream, const TensorView& x, const TensorView& amax_1) {
  check_amax(Checks("amax", stream), x, amax_1);
  run_kernel<host::amax, cuda::amax>(family, stream, x, amax_1);
}

void amax_so_far(Stream& stream, const TensorView& x, const TensorView& amax_1) {
  check_amax(Checks("amax_so_far", stream), x, amax_1);
  run_kernel<host::amax_so_far, cuda::amax_so_far>(family, stream, x, amax_1);
}

void transpose(Stream& stream, const TensorView& x_MK, const TensorView& y_KM) {
  const Checks check("transpose", stream);
  require(x_MK.shape().rank() == 2, "transpose takes matrices, not {}", x_MK.shape());
  check.tensor({"x", x_MK}, x_MK.dtype(), x_MK.shape());
  check.tensor({"y", y_KM}, x_MK.dtype(), {x_MK.dim(1), x_MK.dim(0)});
  check.dense({"y", y_KM});
  run_kernel<host::transpose, cuda::transpose>(family, stream, x_MK, y_KM);
}

void scale_of_amax(Stream& stream, const TensorView& amax_1, Fp8Format format,
                   const TensorView& scale_1, ScaleSteps steps) {
  const Checks check("scale_of_amax", stream);
  check.tensor({"amax", amax_1}, DType::f32, {1});
  check.tensor({"scale", scale_1}, DType::f32, {1});
  run_kernel<host::scale_of_amax, cuda::scale_of_amax>(stream, amax_1, format, scale_1,
                                                       steps);
}

void quantize(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y) {
  const Checks check("quantize", stream);
  check.matrix({"x", x_MK});
  check_fp8(check, y, x_MK.shape());
  require(!stream.device().is_cuda() || y.scaling != Fp8Scaling::row_32,
          Status::resources,
          "MXFP8 on a GPU needs compute capability 10 and is not provided: write "
          "precision.recipe = \"te_current\"");
  run_kernel<host::quantize, cuda::quantize>(family, stream, x_MK, y);
}

void quantize_and_transpose(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                            const TensorView& codes_KM, const TensorView& amax_1) {
  const Checks check("quantize_and_transpose", stream);
  check.matrix({"x", x_MK});
  require(
      y.scaling == Fp8Scaling::tensor,
      "quantize_and_transpose: codes of both orders are the same with one scale alone");
  check.tensor({"scales", y.scales}, DType::f32, {1});
  if (!y.codes.empty()) check.tensor({"codes", y.codes}, DType::u8, x_MK.shape());
  if (!codes_KM.empty()) {
    check.tensor({"transposed codes", codes_KM}, DType::u8, {x_MK.dim(1), x_MK.dim(0)});
    check.dense({"transposed codes", codes_KM});
  }
  if (!amax_1.empty()) check_amax(check, x_MK, amax_1);
  run_kernel<host::quantize_and_transpose, cuda::quantize_and_transpose>(
      family, stream, x_MK, y, codes_KM, amax_1);
}

void count_losses(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                  const TensorView& counts_2, const TensorView& scale_1) {
  const Checks check("count_losses", stream);
  check.matrix({"x", x_MK});
  check_fp8(check, y, x_MK.shape());
  check.tensor({"counts", counts_2}, DType::f64, {2});
  check.tensor({"scale", scale_1}, DType::f32, {1});
  run_kernel<host::count_losses, cuda::count_losses>(family, stream, x_MK, y, counts_2,
                                                     scale_1);
}

void dequantize(Stream& stream, const Fp8Matrix& x, const TensorView& y_MK) {
  const Checks check("dequantize", stream);
  check.matrix({"y", y_MK});
  check_fp8(check, x, y_MK.shape());
  run_kernel<host::dequantize, cuda::dequantize>(family, stream, x, y_MK);
}

}  // namespace trireme::kernels
