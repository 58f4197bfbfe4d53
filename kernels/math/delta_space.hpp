// What a chunk of the gated delta rule works on: rows of heads, and working space.
// SPDX-License-Identifier: Apache-2.0
// Legend and formulas: delta_rule.hpp.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "kernels/delta_rule.hpp"

namespace trireme::kernels::math {

// out_MN (written, or added to) = factor scale_m (sum over p of a(m, p) b(p, n)); the
// strides of a and b say how they lie; scale may be null: 1.
template <class A>
struct DeltaProduct {
  std::int64_t m, n, p;
  const A* a;
  std::int64_t a_m, a_p;
  const A* b;
  std::int64_t b_p, b_n;
  A* out;
  std::int64_t out_m;
  bool add = false;
  A factor = 1;
  const A* scale = nullptr;
};

template <class T>
struct DeltaMatrix {
  T* data = nullptr;
  std::int64_t stride = 0;
  TRIREME_HOST_DEVICE T* row(std::int64_t t) const { return data + t * stride; }
};

struct DeltaSizes {
  std::int64_t S, K, V, R;
  double eps;
};

// One key head of one sequence, from its first row on, and its R value heads, whose
// columns lie beside each other. d... are gradients.
template <class T, class A>
struct DeltaHead {
  DeltaMatrix<T> q, k, v, o;  // backward: o is the gradient of the output
  DeltaMatrix<A> g, beta;
  DeltaMatrix<T> dq, dk, dv;
  DeltaMatrix<A> dg, dbeta;
  A* states = nullptr;  // [R, chunks, K V], or null ...
  A* state = nullptr;   // ... and [R, K V]
  const std::int32_t* starts = nullptr;
};

// Working space: what both directions have, and what backward has besides.
constexpr std::int64_t delta_forward_elements(std::int64_t K, std::int64_t V) {
  constexpr std::int64_t C = delta_chunk_rows;
  return 3 * C * K + 3 * C * V + 5 * C * C + 5 * C;
}
constexpr std::int64_t delta_backward_elements(std::int64_t K, std::int64_t V,
                                               std::int64_t R) {
  constexpr std::int64_t C = delta_chunk_rows;
  return delta_forward_elements(K, V) + 2 * C * K + 4 * C * V + 2 * C * C + 4 * C + K +
         R * K * V;
}

// Cuts working space into arrays.
template <class A>
struct DeltaSpace {
  A* next;
  TRIREME_HOST_DEVICE A* take(std::int64_t elements) {
    A* const at = next;
    next += elements;
    return at;
  }
};

// What forward makes of a chunk.
template <class A>
struct DeltaChunkSpace {
  A *q, *k, *scaled;             // [C, K]; q and k of length 1, q times 1 / sqrt(K)
  A *u, *kept, *met;             // [C, V]: U, h K S, h Q S
  A *kk, *qk, *decay, *low, *p;  // [C, C]: k_i k_j, q_i k_j, D, L and P
  A *sum, *h, *beta;             // [C]: G
  A *q_length, *k_length;        // [C]: what rows were multiplied by
};

// What backward makes besides.
template <class A>
struct DeltaGradientSpace {
  A *dq, *dk;              // [C, K]
  A *v, *d_o, *du, *ds_k;  // [C, V]; K times the gradient of the state behind the chunk
  A *dp, *dl;              // [C, C]
  A *dsum, *given;         // [C]: of h_i, and what row i gives to the state behind
  A *dg, *dbeta, *by_row;  // [C], [C], [K]
  A* ds;                   // [R, K V]: the gradient of the state
};

template <class A>
TRIREME_HOST_DEVICE DeltaChunkSpace<A> delta_chunk_space(DeltaSpace<A>& space,
                                                         const DeltaSizes& of) {
  constexpr std::int64_t C = delta_chunk_rows;
  DeltaChunkSpace<A> s;
  s.q = space.take(C * of.K), s.k = space.take(C * of.K);
  s.scaled = space.take(C * of.K);
  s.u = space.take(C * of.V), s.kept = space.take(C * of.V);
  s.met = space.take(C * of.V);
  s.kk = space.take(C * C), s.qk = space.take(C * C), s.decay = space.take(C * C);
  s.low = space.take(C * C), s.p = space.take(C * C);
  s.sum = space.take(C), s.h = space.take(C), s.beta = space.take(C);
  s.q_length = space.take(C), s.k_length = space.take(C);
  return s;
}

template <class A>
TRIREME_HOST_DEVICE DeltaGradientSpace<A> delta_gradient_space(DeltaSpace<A>& space,
                                                               const DeltaSizes& of) {
  constexpr std::int64_t C = delta_chunk_rows;
  DeltaGradientSpace<A> s;
  s.dq = space.take(C * of.K), s.dk = space.take(C * of.K);
  s.v = space.take(C * of.V), s.d_o = space.take(C * of.V);
  s.du = space.take(C * of.V), s.ds_k = space.take(C * of.V);
  s.dp = space.take(C * C), s.dl = space.take(C * C);
  s.dsum = space.take(C), s.given = space.take(C), s.dg = space.take(C);
  s.dbeta = space.take(C), s.by_row = space.take(of.K);
  s.ds = space.take(of.R * of.K * of.V);
  return s;
}

}  // namespace trireme::kernels::math
