// Decisions about a step: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/step_decision.hpp"

#include "base/error.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(decide_step);

namespace {

ProfileFamily family("optimizer");

}  // namespace

void decide_step(Stream& stream, const StepRule& rule, const TensorView& rows_P2,
                 const TensorView& decision) {
  require(rows_P2.dtype() == DType::f64 && rows_P2.shape().rank() == 2 &&
              rows_P2.dim(0) > 0 && rows_P2.dim(1) == 2 && rows_P2.is_dense(),
          "decide_step: rows are {} {}, not [ranks, 2] in f64", name_of(rows_P2.dtype()),
          rows_P2.shape());
  require(decision.dtype() == DType::f64 && decision.elements() == decision_values &&
              decision.is_dense(),
          "decide_step: the decision is {} {}, not [{}] in f64",
          name_of(decision.dtype()), decision.shape(),
          static_cast<std::int64_t>(decision_values));
  require(rule.tensor >= 1 && rule.in_stage >= 1 && rule.in_stage % rule.tensor == 0 &&
              rows_P2.dim(0) % rule.in_stage == 0,
          "decide_step: {} ranks, {} in a stage, {} in a tensor group", rows_P2.dim(0),
          rule.in_stage, rule.tensor);
  run_kernel<host::decide_step, cuda::decide_step>(family, stream, rule, rows_P2,
                                                   decision);
}

}  // namespace trireme::kernels
