// The types of the tensors of an optimizer's update, as template arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Calls f(T{}) with the type of the master weights, f32 or f64.
template <class F>
void visit_master(const TensorView& master, const F& f) {
  if (master.dtype() == DType::f64) return f(double{});
  f(float{});
}

// The elements of a state; none of a state that the formula does not have.
template <class T>
T* state_elements(const TensorView& state) {
  return state.empty() ? nullptr : state.data<T>();
}

// Calls f(T*) with the elements of `weight`: nullptr of float when there is none.
template <class F>
void visit_weight(const TensorView& weight, const F& f) {
  if (weight.empty()) return f(static_cast<float*>(nullptr));
  visit_floating(weight.dtype(),
                 [&](auto element) { f(weight.data<decltype(element)>()); });
}

}  // namespace trireme::kernels
