// Optimizer updates: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer.hpp"

#include "base/has_cuda.hpp"
#include "kernels/cuda/optimizer/optimizer.hpp"
#include "kernels/host/optimizer.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
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

}  // namespace

void adamw(Stream& stream, const AdamW& rule, const TensorView& master,
           const TensorView& gradient, const TensorView& moment1,
           const TensorView& moment2, const TensorView& weight) {
  check_weights(stream, master, weight);
  check_state(stream, master, gradient, "the gradient");
  check_state(stream, master, moment1, "the first moment");
  check_state(stream, master, moment2, "the second moment");
  require(rule.step >= 1, "AdamW counts steps from 1, not {}", rule.step);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::adamw(stream, rule, master, gradient, moment1, moment2, weight);
  }
  host::adamw(rule, master, gradient, moment1, moment2, weight);
}

void sgd(Stream& stream, const Sgd& rule, const TensorView& master,
         const TensorView& gradient, const TensorView& buffer, const TensorView& weight) {
  check_weights(stream, master, weight);
  check_state(stream, master, gradient, "the gradient");
  if (!buffer.empty()) check_state(stream, master, buffer, "the momentum buffer");
  require(!buffer.empty() || rule.momentum == 0, "SGD with momentum {} needs a buffer",
          rule.momentum);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::sgd(stream, rule, master, gradient, buffer, weight);
  }
  host::sgd(rule, master, gradient, buffer, weight);
}

}  // namespace trireme::kernels
