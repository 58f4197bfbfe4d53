// Sinks of attention: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sinks.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(add_sinks);
TRIREME_BACK_ENDS(sink_gradients);

namespace {

ProfileFamily family("attention");

void check_sinks(const Checks& check, const TensorView& sinks_H, const TensorView& o_THK,
                 const TensorView& lse_TH) {
  check.matrix({"o", o_THK});
  const std::int64_t T = o_THK.dim(0), H = sinks_H.elements();
  check.tensor({"sinks", sinks_H}, o_THK.dtype(), {H});
  check.dense({"sinks", sinks_H});
  require(H > 0 && o_THK.dim(1) % H == 0, "sinks of {} heads for rows of {} elements", H,
          o_THK.dim(1));
  check.tensor({"lse", lse_TH}, accumulator_of(o_THK.dtype()), {T, H});
}

}  // namespace

void add_sinks(Stream& stream, const TensorView& sinks_H, const TensorView& o_THK,
               const TensorView& lse_TH) {
  check_sinks(Checks("add_sinks", stream), sinks_H, o_THK, lse_TH);
  run_kernel<host::add_sinks, cuda::add_sinks>(family, stream, sinks_H, o_THK, lse_TH);
}

void sink_gradients(Stream& stream, const TensorView& sinks_H, const TensorView& do_THK,
                    const TensorView& o_THK, const TensorView& lse_TH,
                    const TensorView& terms_TH) {
  const Checks check("sink_gradients", stream);
  check_sinks(check, sinks_H, o_THK, lse_TH);
  check.tensor({"do", do_THK}, o_THK.dtype(), o_THK.shape());
  check.tensor({"terms", terms_TH}, lse_TH.dtype(), lse_TH.shape());
  run_kernel<host::sink_gradients, cuda::sink_gradients>(family, stream, sinks_H, do_THK,
                                                         o_THK, lse_TH, terms_TH);
}

}  // namespace trireme::kernels
