// SwiGLU and GELU: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(swiglu);
TRIREME_BACK_ENDS(swiglu_backward);
TRIREME_BACK_ENDS(gelu);
TRIREME_BACK_ENDS(gelu_backward);

namespace {
ProfileFamily family("activation");
}  // namespace

void swiglu(Stream& stream, const TensorView& gate_up_T2F, const TensorView& y_TF) {
  const Checks check("swiglu", stream);
  check.matrix({"y", y_TF});
  check.tensor({"gate_up", gate_up_T2F}, y_TF.dtype(), {y_TF.dim(0), 2 * y_TF.dim(1)});
  run_kernel<host::swiglu, cuda::swiglu>(family, stream, gate_up_T2F, y_TF);
}

void swiglu_backward(Stream& stream, const TensorView& dy_TF,
                     const TensorView& gate_up_T2F, const TensorView& dgate_up_T2F) {
  const Checks check("swiglu_backward", stream);
  check.matrix({"dy", dy_TF});
  const Shape shape_T2F{dy_TF.dim(0), 2 * dy_TF.dim(1)};
  check.tensor({"gate_up", gate_up_T2F}, dy_TF.dtype(), shape_T2F);
  check.tensor({"dgate_up", dgate_up_T2F}, dy_TF.dtype(), shape_T2F);
  run_kernel<host::swiglu_backward, cuda::swiglu_backward>(family, stream, dy_TF,
                                                           gate_up_T2F, dgate_up_T2F);
}

void gelu(Stream& stream, const TensorView& x, const TensorView& y) {
  const Checks check("gelu", stream);
  check.floating({"x", x});
  check.dense_or_matrix({"x", x});
  check.tensor({"y", y}, x.dtype(), x.shape());
  check.dense_or_matrix({"y", y});
  run_kernel<host::gelu, cuda::gelu>(family, stream, x, y);
}

void gelu_backward(Stream& stream, const TensorView& dy, const TensorView& x,
                   const TensorView& dx) {
  const Checks check("gelu_backward", stream);
  check.floating({"x", x});
  for (const Argument& argument : {Argument{"dy", dy}, {"x", x}, {"dx", dx}}) {
    check.tensor(argument, x.dtype(), x.shape());
    check.dense_or_matrix(argument);
  }
  run_kernel<host::gelu_backward, cuda::gelu_backward>(family, stream, dy, x, dx);
}

}  // namespace trireme::kernels
