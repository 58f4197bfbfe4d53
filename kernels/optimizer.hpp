// Elementwise optimizer updates in one sweep over memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/math/update.hpp"

namespace trireme::kernels {

// No formula keeps more states of an element than this.
inline constexpr std::size_t most_states = 2;
using UpdateStates = std::array<TensorView, most_states>;

// One step of the formula on each element, see kernels/math/update.hpp.
// master [n] f32 or f64, updated; gradient [n] in master's dtype; states: as many as the
// formula has, each [n] in master's dtype, updated; weight: empty, or [n] in the compute
// dtype: the rounded copy of master, written. Traffic per element (f32): 12 bytes, and 8
// for each state.
void update(Stream& stream, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight);

// The tensors of an update, as update() takes them.
struct UpdateTensors {
  TensorView master, gradient;
  UpdateStates states;
  TensorView weight;
};

// update() of each of the tensors by its own step, in one sweep on a GPU. All have one
// formula, and types as the first one has them. decision: empty, or f64 as decide_step()
// leaves it, on the stream's device, read when the work runs: its scale takes the place
// of all steps' gradient_scale, and where it is not sound nothing is read or written.
void update_all(Stream& stream, std::span<const Update> updates,
                std::span<const UpdateTensors> tensors, const TensorView& decision = {});

}  // namespace trireme::kernels
