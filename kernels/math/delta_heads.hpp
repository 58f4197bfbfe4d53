// Where the rows of a key head lie in the tensors of the gated delta rule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/math/activation.hpp"
#include "kernels/math/delta_rule.hpp"

namespace trireme::kernels::math {

inline DeltaSizes delta_sizes(const DeltaShape& shape) {
  return {shape.sequence, shape.key_width, shape.value_width,
          shape.value_heads / shape.key_heads, shape.eps};
}

// The tensors, as pointers to elements of the type D, which is the device's name of T.
template <class D, class A>
struct DeltaHeads {
  DeltaHead<D, A> first;               // of the first sequence
  std::int64_t S, K, V, R, G, states;  // states: elements of those of a value head

  TRIREME_HOST_DEVICE DeltaHead<D, A> head(std::int64_t b, std::int64_t h) const {
    const std::int64_t row = b * S, g = h * R;
    DeltaHead<D, A> at = first;
    move(at.q, row, h * K), move(at.k, row, h * K);
    move(at.dq, row, h * K), move(at.dk, row, h * K);
    move(at.v, row, g * V), move(at.o, row, g * V), move(at.dv, row, g * V);
    move(at.g, row, g), move(at.beta, row, g);
    move(at.dg, row, g), move(at.dbeta, row, g);
    if (at.states != nullptr) at.states += (b * G + g) * states;
    if (at.state != nullptr) at.state += (b * G + g) * K * V;
    if (at.starts != nullptr) at.starts += row;
    return at;
  }

 private:
  template <class X>
  TRIREME_HOST_DEVICE static void move(DeltaMatrix<X>& x, std::int64_t row,
                                       std::int64_t column) {
    if (x.data != nullptr) x.data += row * x.stride + column;
  }
};

// The rows of a view of elements T.
template <class T, class D>
DeltaMatrix<D> delta_matrix(const TensorView& x) {
  if (x.empty()) return {};
  return {reinterpret_cast<D*>(x.data<T>()), x.stride(0)};
}

template <class T, class D>
DeltaHeads<D, Accumulator<T>> delta_heads(const DeltaShape& shape, const DeltaInputs& in,
                                          const TensorView& o_TGV,
                                          const TensorView& states,
                                          const TensorView& state,
                                          const DeltaInputs& d = {}) {
  using A = Accumulator<T>;
  DeltaHeads<D, A> all{};
  DeltaHead<D, A>& to = all.first;
  to.q = delta_matrix<T, D>(in.q_THK), to.k = delta_matrix<T, D>(in.k_THK);
  to.v = delta_matrix<T, D>(in.v_TGV), to.o = delta_matrix<T, D>(o_TGV);
  to.g = delta_matrix<A, A>(in.g_TG), to.beta = delta_matrix<A, A>(in.beta_TG);
  to.dq = delta_matrix<T, D>(d.q_THK), to.dk = delta_matrix<T, D>(d.k_THK);
  to.dv = delta_matrix<T, D>(d.v_TGV);
  to.dg = delta_matrix<A, A>(d.g_TG), to.dbeta = delta_matrix<A, A>(d.beta_TG);
  if (!states.empty()) to.states = states.data<A>();
  if (!state.empty()) to.state = state.data<A>();
  if (!shape.starts_T.empty()) to.starts = shape.starts_T.data<std::int32_t>();
  all.S = shape.sequence, all.K = shape.key_width, all.V = shape.value_width;
  all.G = shape.value_heads, all.R = shape.value_heads / shape.key_heads;
  all.states = shape.chunks() * shape.key_width * shape.value_width;
  return all;
}

// The gates of a row and value head: g = -e^decay softplus(x), x = a + bias, and beta =
// sigma(b). What the gradients of g and beta give a (and the bias), b and decay.
template <class A>
struct DeltaGateGradients {
  A a, b, decay;
};
template <class M, class A>
TRIREME_HOST_DEVICE A softplus(A x) {
  return (x > A(0) ? x : A(0)) + std::log1p(M::exp_of_nonpositive(x > A(0) ? -x : x));
}
template <class M, class A>
TRIREME_HOST_DEVICE DeltaGateGradients<A> delta_gate_gradients(A x, A b, A decay, A dg,
                                                               A dbeta) {
  const A rate = -std::exp(decay);
  const Logistic<A> beta = logistic<M>(b);
  return {dg * rate * logistic<M>(x).value, dbeta * beta.value * beta.complement,
          dg * rate * softplus<M>(x)};
}

}  // namespace trireme::kernels::math
