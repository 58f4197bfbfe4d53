// The gated delta rule: linear attention whose state forgets and corrects itself.
// SPDX-License-Identifier: Apache-2.0
// B sequences, S positions, T = B * S rows, H key heads, R value heads of each, G = H R
// value heads, K width of a key, V width of a value. For a value head, with q and k of
// its key head, both of length 1, and q times 1 / sqrt(K), row by row:
//   state_KV *= e^g; u = beta (v - state^T k); state += k u^T; o = state^T q
// Source: Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta
// Rule", 2024, equation 10; rows are done in chunks after Yang, Wang, Zhang, Shen and
// Kim, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length",
// 2024, section 3.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/memory.hpp"
#include "base/split.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Rows of a chunk: a state is kept for each.
inline constexpr std::int64_t delta_chunk_rows = 64;

struct DeltaShape {
  std::int64_t batch = 0;        // B
  std::int64_t sequence = 0;     // S
  std::int64_t key_heads = 0;    // H
  std::int64_t value_heads = 0;  // G, a multiple of H
  std::int64_t key_width = 0;    // K
  std::int64_t value_width = 0;  // V
  double eps = 1e-6;  // added to the squared lengths of q and k before their roots
  // i32 [T], dense: where the document of each row begins in its sequence, before which
  // the state is 0; empty: a sequence is one document.
  TensorView starts_T{};

  std::int64_t chunks() const { return divide_up(sequence, delta_chunk_rows); }
  // Of `states`: one for each chunk, that before its first row.
  Shape states() const {
    return {batch * value_heads * chunks(), key_width * value_width};
  }
  // Of the running `state` of generation.
  Shape state() const { return {batch * value_heads, key_width * value_width}; }
};

// Rows may be strided, but for g and beta, which are dense and in the accumulator dtype.
struct DeltaInputs {
  TensorView q_THK, k_THK, v_TGV;
  TensorView g_TG;  // at most 0
  TensorView beta_TG;
};

// o_TGV (written; rows may be strided). Either `states` (written, accumulator dtype,
// dense, DeltaShape::states()) keeps for backward what each chunk begins with, which is 0
// for the first; or `state` (DeltaShape::state()) is what the sequence goes on from, and
// becomes that behind its last row; the other one is empty. Scratch: working space of a
// chunk for each thread, released on return.
void delta_rule(Stream& stream, Arena& scratch, const DeltaShape& shape,
                const DeltaInputs& in, const TensorView& o_TGV, const TensorView& states,
                const TensorView& state = {});

// Writes the gradients `d` of all inputs, in their dtypes, from do_TGV and the states
// that forward kept. The same for any number of threads.
void delta_rule_backward(Stream& stream, Arena& scratch, const DeltaShape& shape,
                         const TensorView& do_TGV, const DeltaInputs& in,
                         const TensorView& states, const DeltaInputs& d);

// What decides how much a row forgets and corrects: g (written) = -e^decay softplus(a +
// bias), beta (written) = sigma(b). a_TG, b_TG, decay_G and bias_G in the compute dtype,
// of which a and b may be strided; g_TG and beta_TG dense, in the accumulator dtype.
void delta_gates(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                 const TensorView& decay_G, const TensorView& bias_G,
                 const TensorView& g_TG, const TensorView& beta_TG);

// da_TG and db_TG (written, compute dtype, may be strided) from the gradients dg_TG and
// dbeta_TG. These become the terms whose sums over rows are the gradients of decay_G and
// of bias_G.
void delta_gates_backward(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                          const TensorView& decay_G, const TensorView& bias_G,
                          const TensorView& dg_TG, const TensorView& dbeta_TG,
                          const TensorView& da_TG, const TensorView& db_TG);

}  // namespace trireme::kernels
