// Causal attention as graphs of cuDNN.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
#pragma once

#include <compare>

#include "kernels/cuda/cudnn/graph.hpp"

namespace trireme::kernels::cuda {

// What graphs read and write; the value is the tensor's id. scale, minus_infinity and one
// are scalars; delta and dq_sums, f32 and dense [B, H, S] and [B, H, S, K], are working
// memory of backward.
enum AttentionTensor : std::int64_t {
  t_q,
  t_k,
  t_v,
  t_o,
  t_lse,
  t_do,
  t_dq,
  t_dk,
  t_dv,
  t_delta,
  t_dq_sums,
  t_scale,
  t_minus_infinity,
  t_one,
  attention_tensors
};
inline constexpr std::int64_t attention_matrices = t_delta;  // ids below lie in rows

// Everything that a plan depends on, beside the GPU. Query head h reads key/value head
// h G / H.
struct AttentionProblem {
  bool backward = false;
  bool ordered = true;  // sums of backward, see add_backward()
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, width = 0;
  // Elements from one row of a tensor to the next, by id.
  std::array<std::int64_t, attention_matrices> row{};

  auto operator<=>(const AttentionProblem&) const = default;
};

// Ids of the tensors of a problem's graph.
std::span<const std::int64_t> tensors_of(const AttentionProblem& problem);

// o and lse (natural logarithms) from q, k and v.
void add_forward(Graph& graph, const AttentionProblem& problem);
// dq, dk and dv from do and what forward read and wrote. Where the sums are ordered dq is
// the result of one product, not a sum of parts in memory: that is what makes the library
// choose an algorithm with a fixed order of sums, which holds all scores. Otherwise parts
// of dq are added up in dq_sums as they come.
void add_backward(Graph& graph, const AttentionProblem& problem);

}  // namespace trireme::kernels::cuda
