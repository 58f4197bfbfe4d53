// SwiGLU and GELU: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include "base/has_cuda.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/elementwise/activation.hpp"
#include "kernels/host/activation.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
namespace {
ProfileFamily family("activation");
}  // namespace

void swiglu(Stream& stream, const TensorView& gate_up_T2F, const TensorView& y_TF) {
  const Checks check("swiglu", stream);
  check.matrix({"y", y_TF});
  check.tensor({"gate_up", gate_up_T2F}, y_TF.dtype(), {y_TF.dim(0), 2 * y_TF.dim(1)});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::swiglu(stream, gate_up_T2F, y_TF);
  }
  host::swiglu(gate_up_T2F, y_TF);
}

void swiglu_backward(Stream& stream, const TensorView& dy_TF,
                     const TensorView& gate_up_T2F, const TensorView& dgate_up_T2F) {
  const Checks check("swiglu_backward", stream);
  check.matrix({"dy", dy_TF});
  const Shape shape_T2F{dy_TF.dim(0), 2 * dy_TF.dim(1)};
  check.tensor({"gate_up", gate_up_T2F}, dy_TF.dtype(), shape_T2F);
  check.tensor({"dgate_up", dgate_up_T2F}, dy_TF.dtype(), shape_T2F);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::swiglu_backward(stream, dy_TF, gate_up_T2F, dgate_up_T2F);
  }
  host::swiglu_backward(dy_TF, gate_up_T2F, dgate_up_T2F);
}

void gelu(Stream& stream, const TensorView& x, const TensorView& y) {
  const Checks check("gelu", stream);
  check.floating({"x", x});
  check.dense_or_matrix({"x", x});
  check.tensor({"y", y}, x.dtype(), x.shape());
  check.dense_or_matrix({"y", y});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::gelu(stream, x, y);
  }
  host::gelu(x, y);
}

void gelu_backward(Stream& stream, const TensorView& dy, const TensorView& x,
                   const TensorView& dx) {
  const Checks check("gelu_backward", stream);
  check.floating({"x", x});
  for (const Argument& argument : {Argument{"dy", dy}, {"x", x}, {"dx", dx}}) {
    check.tensor(argument, x.dtype(), x.shape());
    check.dense_or_matrix(argument);
  }
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::gelu_backward(stream, dy, x, dx);
  }
  host::gelu_backward(dy, x, dx);
}

}  // namespace trireme::kernels
