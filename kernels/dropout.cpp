// Dropout: checks and the choice of a device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(dropout);

namespace {

ProfileFamily family("dropout");

}  // namespace

void dropout(Stream& stream, const DropoutKey& key, double rate,
             const TensorView& positions_T, const TensorView& x_TD,
             const TensorView& y_TD) {
  const Checks check("dropout", stream);
  check.matrix({"y", y_TD});
  check.tensor({"x", x_TD}, y_TD.dtype(), y_TD.shape());
  check.tensor({"positions", positions_T}, DType::i32, {y_TD.dim(0)});
  require(rate >= 0 && rate < 1, "dropout: a rate of {}", rate);
  require(key.here > 0 && key.sequence > 0, "dropout: sequences of {} positions, {} here",
          key.sequence, key.here);
  run_kernel<host::dropout, cuda::dropout>(family, stream, key, rate, positions_T, x_TD,
                                           y_TD);
}

}  // namespace trireme::kernels
