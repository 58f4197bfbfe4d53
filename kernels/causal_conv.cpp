// Causal convolution: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/causal_conv.hpp"

#include "kernels/checks.hpp"
#include "kernels/cuda/delta/demand.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/runtime/plan_working_memory.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(causal_conv);
TRIREME_BACK_ENDS(causal_conv_backward);

namespace {

ProfileFamily family("delta rule");

void check_conv(const Checks& check, const ConvShape& shape, const TensorView& x_TC,
                const TensorView& weight_CW) {
  check.matrix({"x", x_TC});
  check.matrix({"weight", weight_CW});
  const std::int64_t T = shape.batch * shape.sequence, W = weight_CW.dim(1);
  check.tensor({"weight", weight_CW}, x_TC.dtype(), {x_TC.dim(1), W});
  check.dense({"weight", weight_CW});
  require(x_TC.dim(0) == T && W > 0 && W <= most_conv_taps,
          "causal_conv: {} taps, at most {}, on {} rows for {} sequences of {}", W,
          most_conv_taps, x_TC.dim(0), shape.batch, shape.sequence);
  if (!shape.starts_T.empty()) check.tensor({"starts", shape.starts_T}, DType::i32, {T});
}

}  // namespace

void causal_conv(Stream& stream, const ConvShape& shape, const TensorView& x_TC,
                 const TensorView& weight_CW, const TensorView& y_TC) {
  const Checks check("causal_conv", stream);
  check_conv(check, shape, x_TC, weight_CW);
  check.tensor({"y", y_TC}, x_TC.dtype(), x_TC.shape());
  run_kernel<host::causal_conv, cuda::causal_conv>(family, stream, shape, x_TC, weight_CW,
                                                   y_TC);
}

void causal_conv_backward(Stream& stream, const ConvShape& shape, const TensorView& dy_TC,
                          const TensorView& x_TC, const TensorView& weight_CW,
                          const TensorView& dx_TC, const TensorView& dweight_CW) {
  const Checks check("causal_conv_backward", stream);
  check_conv(check, shape, x_TC, weight_CW);
  check.tensor({"dy", dy_TC}, x_TC.dtype(), x_TC.shape());
  check.tensor({"dx", dx_TC}, x_TC.dtype(), x_TC.shape());
  check.tensor({"dweight", dweight_CW}, accumulator_of(x_TC.dtype()), weight_CW.shape());
  check.dense({"dweight", dweight_CW});
  require(stream.device().is_meta() || dx_TC.elements() == 0 ||
              (dx_TC.raw() != dy_TC.raw() && dx_TC.raw() != x_TC.raw()),
          "causal_conv_backward: dx is written where an input is still read");
  plan_working_memory(
      stream, [&] { return cuda::causal_conv_backward_workspace(x_TC, weight_CW); });
  run_kernel<host::causal_conv_backward, cuda::causal_conv_backward>(
      family, stream, shape, dy_TC, x_TC, weight_CW, dx_TC, dweight_CW);
}

}  // namespace trireme::kernels
