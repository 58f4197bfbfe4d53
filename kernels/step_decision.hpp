// Decisions that a GPU makes of a step by itself, so that its host need not wait for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/math/step_decision.hpp"

namespace trireme::kernels {

// Where the numbers of a decision stand. sound: 1, or 0.
enum DecisionAt : std::int64_t {
  decided_loss,
  decided_norm,
  decided_scale,
  decided_sound,
  decision_values
};

// decision [4] f64, written: the loss and the L2 norm of the gradient over all ranks,
// what clipping multiplies the gradient by, and whether the step is sound. rows_P2 f64:
// each rank's sum of losses, and squares of its part of the gradient, in the order of
// ranks; a whole number of stages. Sums are made in that order, in double, so that all
// devices have one result, to the bit. Async: nothing waits for the stream.
void decide_step(Stream& stream, const StepRule& rule, const TensorView& rows_P2,
                 const TensorView& decision);

}  // namespace trireme::kernels
