// Optimizer updates: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/step_decision.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(update);
TRIREME_BACK_ENDS(update_all);

namespace {

ProfileFamily family("optimizer");

// All that a sweep touches is dense, of one length and on the stream's device.
void check_place(const Stream& stream, const TensorView& view, const char* name) {
  require(stream.device().is_meta() || view.device() == stream.device(),
          "optimizer: {} is not on the stream's device", name);
}

// State is in master's type.
void check_state(const Stream& stream, const TensorView& master, const TensorView& state,
                 const char* name) {
  require(state.dtype() == master.dtype() && state.elements() == master.elements() &&
              state.is_dense(),
          "optimizer: {} is {} {}, the master weights are {} {}", name,
          name_of(state.dtype()), state.shape(), name_of(master.dtype()), master.shape());
  check_place(stream, state, name);
}

void check_weights(const Stream& stream, const TensorView& master,
                   const TensorView& weight) {
  require(
      master.is_dense() && (master.dtype() == DType::f32 || master.dtype() == DType::f64),
      "optimizer: master weights are dense fp32 or fp64, not {} {}",
      name_of(master.dtype()), master.shape());
  check_place(stream, master, "the master weights");
  if (weight.empty()) return;
  require(weight.elements() == master.elements() && weight.is_dense(),
          "optimizer: weights {} for master weights {}", weight.shape(), master.shape());
  check_place(stream, weight, "the weights");
}

// Master weights, gradients and states are read and written, weights are written.
double bytes_of(const Update& update, const TensorView& master,
                const TensorView& weight) {
  const int swept = 1 + states_of(update.formula);
  return static_cast<double>(2 * swept + 1) * static_cast<double>(master.bytes()) +
         (weight.empty() ? 0.0 : static_cast<double>(weight.bytes()));
}

void check_update(const Stream& stream, const Update& update, const TensorView& master,
                  const TensorView& gradient, const UpdateStates& states,
                  const TensorView& weight) {
  check_weights(stream, master, weight);
  check_state(stream, master, gradient, "the gradient");
  const auto count = static_cast<std::size_t>(states_of(update.formula));
  for (std::size_t i = 0; i < count; ++i)
    check_state(stream, master, states[i],
                i == 0 ? "the first moment" : "the second moment");
  require(update.step >= 1, "optimizers count steps from 1, not {}", update.step);
}

}  // namespace

void update(Stream& stream, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight) {
  check_update(stream, update, master, gradient, states, weight);
  if (stream.device().is_meta())
    return meter_work(stream, {.kind = WorkKind::update,
                               .type = master.dtype(),
                               .bytes = bytes_of(update, master, weight)});
  family.add_bytes(bytes_of(update, master, weight));
  run_kernel<host::update, cuda::update>(family, stream, update, master, gradient, states,
                                         weight);
}

void update_all(Stream& stream, std::span<const Update> updates,
                std::span<const UpdateTensors> tensors, const TensorView& decision) {
  require(decision.empty() ||
              (decision.dtype() == DType::f64 && decision.elements() == decision_values),
          "optimizer: a decision is {} {}", name_of(decision.dtype()), decision.shape());
  if (!decision.empty()) check_place(stream, decision, "the decision");
  require(updates.size() == tensors.size(), "optimizer: {} steps for {} tensors",
          updates.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const UpdateTensors& x = tensors[i];
    check_update(stream, updates[i], x.master, x.gradient, x.states, x.weight);
    const double bytes = bytes_of(updates[i], x.master, x.weight);
    if (stream.device().is_meta())
      meter_work(stream,
                 {.kind = WorkKind::update, .type = x.master.dtype(), .bytes = bytes});
    else
      family.add_bytes(bytes);
    require(updates[i].formula == updates[0].formula &&
                x.master.dtype() == tensors[0].master.dtype() &&
                x.weight.empty() == tensors[0].weight.empty() &&
                (x.weight.empty() || x.weight.dtype() == tensors[0].weight.dtype()),
            "optimizer: tensor {} has another formula or other types than the first one",
            i);
  }
  run_kernel<host::update_all, cuda::update_all>(family, stream, updates, tensors,
                                                 decision);
}

}  // namespace trireme::kernels
