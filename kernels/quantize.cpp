// FP8 quantization: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.hpp"

#include "base/has_cuda.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/low_precision/quantize.hpp"
#include "kernels/host/quantize.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("quantize");

void check_fp8(const Checks& check, const Fp8Matrix& x, const Shape& shape) {
  check.tensor({"codes", x.codes}, DType::u8, shape);
  check.tensor({"scales", x.scales}, DType::f32,
               fp8_scales_shape(x.scaling, shape[0], shape[1]));
  check.dense({"scales", x.scales});
}

}  // namespace

namespace {

void checked_amax(const char* name, Stream& stream, const TensorView& x,
                  const TensorView& amax_1, bool so_far) {
  const Checks check(name, stream);
  check.floating({"x", x});
  check.dense_or_matrix({"x", x});
  check.tensor({"amax", amax_1}, DType::f32, {1});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::amax(stream, x, amax_1, so_far);
  }
  host::amax(x, amax_1, so_far);
}

}  // namespace

void amax(Stream& stream, const TensorView& x, const TensorView& amax_1) {
  checked_amax("amax", stream, x, amax_1, false);
}

void amax_so_far(Stream& stream, const TensorView& x, const TensorView& amax_1) {
  checked_amax("amax_so_far", stream, x, amax_1, true);
}

void transpose(Stream& stream, const TensorView& x_MK, const TensorView& y_KM) {
  const Checks check("transpose", stream);
  require(x_MK.shape().rank() == 2, "transpose takes matrices, not {}", x_MK.shape());
  check.tensor({"x", x_MK}, x_MK.dtype(), x_MK.shape());
  check.tensor({"y", y_KM}, x_MK.dtype(), {x_MK.dim(1), x_MK.dim(0)});
  check.dense({"y", y_KM});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::transpose(stream, x_MK, y_KM);
  }
  host::transpose(x_MK, y_KM);
}

void scale_of_amax(Stream& stream, const TensorView& amax_1, Fp8Format format,
                   const TensorView& scale_1, ScaleSteps steps) {
  const Checks check("scale_of_amax", stream);
  check.tensor({"amax", amax_1}, DType::f32, {1});
  check.tensor({"scale", scale_1}, DType::f32, {1});
  if (stream.device().is_meta()) return;
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::scale_of_amax(stream, amax_1, format, scale_1, steps);
  }
  *scale_1.data<float>() = fp8_scale(*amax_1.data<float>(), format, steps);
}

void quantize(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y) {
  const Checks check("quantize", stream);
  check.matrix({"x", x_MK});
  check_fp8(check, y, x_MK.shape());
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    require(!stream.device().is_cuda() || y.scaling != Fp8Scaling::row_32,
            Status::resources,
            "MXFP8 on a GPU needs compute capability 10 and is not provided: write "
            "precision.recipe = \"te_current\"");
    if (stream.device().is_cuda()) return cuda::quantize(stream, x_MK, y);
  }
  host::quantize(x_MK, y);
}

void count_losses(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                  const TensorView& counts_2, const TensorView& scale_1) {
  const Checks check("count_losses", stream);
  check.matrix({"x", x_MK});
  check_fp8(check, y, x_MK.shape());
  check.tensor({"counts", counts_2}, DType::f64, {2});
  check.tensor({"scale", scale_1}, DType::f32, {1});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::count_losses(stream, x_MK, y, counts_2, scale_1);
  }
  host::count_losses(x_MK, y, counts_2, scale_1);
}

void dequantize(Stream& stream, const Fp8Matrix& x, const TensorView& y_MK) {
  const Checks check("dequantize", stream);
  check.matrix({"y", y_MK});
  check_fp8(check, x, y_MK.shape());
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::dequantize(stream, x, y_MK);
  }
  host::dequantize(x, y_MK);
}

}  // namespace trireme::kernels
