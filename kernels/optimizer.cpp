// Optimizer updates: checks and dispatch.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer.hpp"

#include "kernels/checks.hpp"
#include "kernels/kokkos/optimizer.hpp"
#include "kernels/profile.hpp"

namespace trireme::kernels {
namespace {

void check_state(const Checks& check, Argument argument, const TensorView& master) {
  check.tensor(argument, master.dtype(), master.shape());
  check.dense(argument);
}

void check_weight(const Checks& check, const TensorView& weight,
                  const TensorView& master) {
  if (weight.empty()) return;
  check.floating({"weight", weight});
  check_state(check, {"weight", weight.reshape(master.shape())},
              TensorView(nullptr, weight.dtype(), master.shape(), weight.device()));
}

}  // namespace

void adamw(Stream& stream, const AdamW& rule, const TensorView& master,
           const TensorView& gradient, const TensorView& moment1,
           const TensorView& moment2, const TensorView& weight) {
  static ProfileFamily family("optimizer");
  const Checks check("adamw", stream);
  require(master.dtype() == DType::f32 || master.dtype() == DType::f64,
          "adamw: master weights are {}", name_of(master.dtype()));
  for (const Argument& argument : {Argument{"master", master},
                                   {"gradient", gradient},
                                   {"moment1", moment1},
                                   {"moment2", moment2}}) {
    check_state(check, argument, master);
  }
  check_weight(check, weight, master);
  require(rule.step >= 1, "adamw: step {} is below 1", rule.step);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  host::adamw(rule, master, gradient, moment1, moment2, weight);
}

void sgd(Stream& stream, const Sgd& rule, const TensorView& master,
         const TensorView& gradient, const TensorView& buffer, const TensorView& weight) {
  static ProfileFamily family("optimizer");
  const Checks check("sgd", stream);
  require(master.dtype() == DType::f32 || master.dtype() == DType::f64,
          "sgd: master weights are {}", name_of(master.dtype()));
  check_state(check, {"master", master}, master);
  check_state(check, {"gradient", gradient}, master);
  require(rule.momentum == 0 || !buffer.empty(), "sgd: momentum needs a buffer");
  if (!buffer.empty()) check_state(check, {"buffer", buffer}, master);
  check_weight(check, weight, master);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  host::sgd(rule, master, gradient, buffer, weight);
}

}  // namespace trireme::kernels
