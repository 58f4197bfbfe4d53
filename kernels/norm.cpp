// RMSNorm and LayerNorm: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.hpp"

#include "kernels/checks.hpp"
#include "kernels/cuda/norm/demand.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/runtime/plan_working_memory.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(rms_norm);
TRIREME_BACK_ENDS(add_rms_norm);
TRIREME_BACK_ENDS(rms_norm_backward);
TRIREME_BACK_ENDS(layer_norm);
TRIREME_BACK_ENDS(add_layer_norm);
TRIREME_BACK_ENDS(layer_norm_backward);

namespace {

ProfileFamily family("norm");

// What both forward passes demand.
void check_forward(const Checks& check, const TensorView& x_TD, const TensorView& gain_D,
                   const TensorView& y_TD, const TensorView& rstd_T) {
  check.matrix({"x", x_TD});
  const auto T = x_TD.dim(0), D = x_TD.dim(1);
  check.tensor({"gain", gain_D}, x_TD.dtype(), {D});
  check.tensor({"y", y_TD}, x_TD.dtype(), {T, D});
  check.tensor({"rstd", rstd_T}, accumulator_of(x_TD.dtype()), {T});
}

void check_addends(const Checks& check, const Addends& addends, const TensorView& x_TD) {
  check.matrix({"x", x_TD});
  check.tensor({"residual", addends.residual_TD}, x_TD.dtype(), x_TD.shape());
  check.tensor({"branch", addends.branch_TD}, x_TD.dtype(), x_TD.shape());
  if (!addends.bias_D.empty())
    check.tensor({"bias", addends.bias_D}, x_TD.dtype(), {x_TD.dim(1)});
}

// What both backward passes demand.
void check_backward(const Checks& check, const TensorView& dy_TD, const TensorView& x_TD,
                    const TensorView& gain_D, const TensorView& rstd_T,
                    const TensorView& residual_TD, const TensorView& dx_TD,
                    const TensorView& dgain_D) {
  check.matrix({"x", x_TD});
  const auto T = x_TD.dim(0), D = x_TD.dim(1);
  const DType dtype = x_TD.dtype(), sums = accumulator_of(dtype);
  check.tensor({"dy", dy_TD}, dtype, {T, D});
  check.tensor({"gain", gain_D}, dtype, {D});
  check.tensor({"rstd", rstd_T}, sums, {T});
  if (!residual_TD.empty()) check.tensor({"residual", residual_TD}, dtype, {T, D});
  check.tensor({"dx", dx_TD}, dtype, {T, D});
  check.tensor({"dgain", dgain_D}, sums, {D});
}

}  // namespace

void rms_norm(Stream& stream, const TensorView& x_TD, const RmsGain& gain_D, double eps,
              const TensorView& y_TD, const TensorView& rstd_T) {
  check_forward(Checks("rms_norm", stream), x_TD, gain_D.stored_D, y_TD, rstd_T);
  run_kernel<host::rms_norm, cuda::rms_norm>(family, stream, x_TD, gain_D, eps, y_TD,
                                             rstd_T);
}

void add_rms_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                  const RmsGain& gain_D, double eps, const TensorView& y_TD,
                  const TensorView& rstd_T) {
  const Checks check("add_rms_norm", stream);
  check_addends(check, addends, x_TD);
  check_forward(check, x_TD, gain_D.stored_D, y_TD, rstd_T);
  run_kernel<host::add_rms_norm, cuda::add_rms_norm>(family, stream, addends, x_TD,
                                                     gain_D, eps, y_TD, rstd_T);
}

void rms_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                       const RmsGain& gain_D, const TensorView& rstd_T,
                       const TensorView& residual_TD, const TensorView& dx_TD,
                       const TensorView& dgain_D) {
  check_backward(Checks("rms_norm_backward", stream), dy_TD, x_TD, gain_D.stored_D,
                 rstd_T, residual_TD, dx_TD, dgain_D);
  plan_working_memory(stream, [&] {
    return cuda::norm_backward_workspace(false, dy_TD, x_TD, gain_D.stored_D, residual_TD,
                                         dx_TD);
  });
  run_kernel<host::rms_norm_backward, cuda::rms_norm_backward>(
      family, stream, dy_TD, x_TD, gain_D, rstd_T, residual_TD, dx_TD, dgain_D);
}

void layer_norm(Stream& stream, const TensorView& x_TD, const TensorView& gain_D,
                const TensorView& shift_D, double eps, const TensorView& y_TD,
                const TensorView& mean_T, const TensorView& rstd_T) {
  const Checks check("layer_norm", stream);
  check_forward(check, x_TD, gain_D, y_TD, rstd_T);
  check.tensor({"shift", shift_D}, x_TD.dtype(), gain_D.shape());
  check.tensor({"mean", mean_T}, rstd_T.dtype(), rstd_T.shape());
  run_kernel<host::layer_norm, cuda::layer_norm>(family, stream, x_TD, gain_D, shift_D,
                                                 eps, y_TD, mean_T, rstd_T);
}

void add_layer_norm(Stream& stream, const Addends& addends, const TensorView& x_TD,
                    const TensorView& gain_D, const TensorView& shift_D, double eps,
                    const TensorView& y_TD, const TensorView& mean_T,
                    const TensorView& rstd_T) {
  const Checks check("add_layer_norm", stream);
  check_addends(check, addends, x_TD);
  check_forward(check, x_TD, gain_D, y_TD, rstd_T);
  check.tensor({"shift", shift_D}, x_TD.dtype(), gain_D.shape());
  check.tensor({"mean", mean_T}, rstd_T.dtype(), rstd_T.shape());
  run_kernel<host::add_layer_norm, cuda::add_layer_norm>(
      family, stream, addends, x_TD, gain_D, shift_D, eps, y_TD, mean_T, rstd_T);
}

void layer_norm_backward(Stream& stream, const TensorView& dy_TD, const TensorView& x_TD,
                         const TensorView& gain_D, const TensorView& mean_T,
                         const TensorView& rstd_T, const TensorView& residual_TD,
                         const TensorView& dx_TD, const TensorView& dgain_D,
                         const TensorView& dshift_D) {
  const Checks check("layer_norm_backward", stream);
  check_backward(check, dy_TD, x_TD, gain_D, rstd_T, residual_TD, dx_TD, dgain_D);
  check.tensor({"mean", mean_T}, rstd_T.dtype(), rstd_T.shape());
  check.tensor({"dshift", dshift_D}, dgain_D.dtype(), dgain_D.shape());
  plan_working_memory(stream, [&] {
    return cuda::norm_backward_workspace(true, dy_TD, x_TD, gain_D, residual_TD, dx_TD);
  });
  run_kernel<host::layer_norm_backward, cuda::layer_norm_backward>(
      family, stream, dy_TD, x_TD, gain_D, mean_T, rstd_T, residual_TD, dx_TD, dgain_D,
      dshift_D);
}

}  // namespace trireme::kernels
