// Activations: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(activate);
TRIREME_BACK_ENDS(activate_backward);

namespace {

ProfileFamily family("activation");

// u and du have the shape and the layout that the activation asks of them beside a and
// da.
void check_input(const Checks& check, Activation kind, const Argument& u,
                 const TensorView& a_NF) {
  if (row_of(kind).gated) {
    check.tensor(u, a_NF.dtype(), {a_NF.dim(0), 2 * a_NF.dim(1)});
  } else {
    check.tensor(u, a_NF.dtype(), a_NF.shape());
    check.dense_or_matrix(u);
  }
}

void check_output(const Checks& check, Activation kind, const Argument& a) {
  if (row_of(kind).gated) {
    check.matrix(a);
  } else {
    check.floating(a);
    check.dense_or_matrix(a);
  }
}

}  // namespace

void activate(Stream& stream, Activation kind, const TensorView& u_NU,
              const TensorView& a_NF) {
  const Checks check(row_of(kind).name, stream);
  check_output(check, kind, {"a", a_NF});
  check_input(check, kind, {"u", u_NU}, a_NF);
  run_kernel<host::activate, cuda::activate>(family, stream, kind, u_NU, a_NF);
}

void activate_backward(Stream& stream, Activation kind, const TensorView& da_NF,
                       const TensorView& u_NU, const TensorView& du_NU) {
  const Checks check(row_of(kind).name, stream);
  check_output(check, kind, {"da", da_NF});
  check_input(check, kind, {"u", u_NU}, da_NF);
  check_input(check, kind, {"du", du_NU}, da_NF);
  run_kernel<host::activate_backward, cuda::activate_backward>(family, stream, kind,
                                                               da_NF, u_NU, du_NU);
}

}  // namespace trireme::kernels
