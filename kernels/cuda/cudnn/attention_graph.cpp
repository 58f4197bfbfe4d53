// Causal attention as graphs of cuDNN.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn/attention_graph.hpp"

#include <utility>

// The library recognises a pattern of operations: neither which they are nor on which
// side an operand stands is free. With
//   s = scale q k^T, masked; p = e^(s - lse); delta = <do, o>,
// o = p v, dv = p^T do, ds = scale p (do v^T - delta), dk = ds^T q, dq = ds k.
// Source: Dao et al., "FlashAttention", 2022, algorithms 1 and 4; NVIDIA's cuDNN
// documentation, "Attention".
namespace trireme::kernels::cuda {
namespace {

using Tensor = Graph::Tensor;

// The tensors of a problem, in the graph.
class Operands {
 public:
  Operands(Graph& graph, const AttentionProblem& problem)
      : graph_(graph), problem_(problem) {}

  // [B, heads, S, K] of a matrix [B * S, heads * K].
  Tensor rows(AttentionTensor id, std::int64_t heads) const {
    const AttentionProblem& p = problem_;
    const std::int64_t row = p.row[id];
    return graph_.memory(id, p.type, {p.batch, heads, p.sequence, p.width},
                         {p.sequence * row, p.width, row, 1});
  }
  // [B, heads, K, S] of the same matrix.
  Tensor columns(AttentionTensor id, std::int64_t heads) const {
    const AttentionProblem& p = problem_;
    const std::int64_t row = p.row[id];
    return graph_.memory(id, p.type, {p.batch, heads, p.width, p.sequence},
                         {p.sequence * row, p.width, 1, row});
  }
  // [B, H, S, 1] of lse_TH.
  Tensor lse() const {
    const AttentionProblem& p = problem_;
    const std::int64_t row = p.row[t_lse];
    return graph_.memory(t_lse, CUDNN_DATA_FLOAT, {p.batch, p.heads, p.sequence, 1},
                         {p.sequence * row, 1, row, 1});
  }

 private:
  Graph& graph_;
  const AttentionProblem& problem_;
};

Tensor transposed(Graph& graph, const Tensor& x, cudnnDataType_t type) {
  Extents dims = x.dims, strides = x.strides;
  std::swap(dims[2], dims[3]);
  std::swap(strides[2], strides[3]);
  const Tensor y = graph.value(dims, strides, type);
  graph.reshape(x, y);
  return y;
}

// mode(x, b) of x's dims.
Tensor combined(Graph& graph, cudnnPointwiseMode_t mode, const Tensor& x,
                const Tensor& b) {
  const Tensor y = graph.value(x.dims);
  graph.pointwise(mode, x, b, y);
  return y;
}

Tensor mapped(Graph& graph, cudnnPointwiseMode_t mode, const Tensor& x) {
  const Tensor y = graph.value(x.dims);
  graph.pointwise(mode, x, y);
  return y;
}

// Sums over query heads that share a key/value head, where there are such.
void add_key_gradient(Graph& graph, const Tensor& left, const Tensor& right,
                      const Tensor& result, cudnnDataType_t type) {
  if (left.dims[1] == result.dims[1]) return graph.matmul(left, right, result);
  const Tensor of_heads = graph.value(right.dims, type);
  graph.matmul(left, right, of_heads);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, result);
}

constexpr std::array<std::int64_t, 7> forward_tensors{
    t_q, t_k, t_v, t_o, t_lse, t_scale, t_minus_infinity};
// What only the form without an order has comes last.
constexpr std::array<std::int64_t, 14> backward_tensors{
    t_q,   t_k,      t_v,  t_o,     t_lse,   t_do,
    t_dq,  t_dk,     t_dv, t_delta, t_scale, t_minus_infinity,
    t_one, t_dq_sums};

}  // namespace

std::span<const std::int64_t> tensors_of(const AttentionProblem& problem) {
  if (!problem.backward) return forward_tensors;
  const std::span<const std::int64_t> all = backward_tensors;
  return problem.ordered ? all.first(all.size() - 1) : all;
}

void add_forward(Graph& graph, const AttentionProblem& p) {
  const Operands x(graph, p);
  const Extents scores{p.batch, p.heads, p.sequence, p.sequence};
  const Extents sums{p.batch, p.heads, p.sequence, 1};
  // 1. s
  const Tensor products = graph.value(scores);
  graph.matmul(x.rows(t_q, p.heads), x.columns(t_k, p.kv_heads), products);
  const Tensor scaled =
      combined(graph, CUDNN_POINTWISE_MUL, products, graph.scalar(t_scale));
  const Tensor s = graph.lower_triangle(scaled, graph.scalar(t_minus_infinity));
  // 2. e^(s - largest), its sums, and lse
  const Tensor largest = graph.value(sums), sum = graph.value(sums);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, s, largest);
  const Tensor shifted = combined(graph, CUDNN_POINTWISE_SUB, s, largest);
  const Tensor e = mapped(graph, CUDNN_POINTWISE_EXP, shifted);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, e, sum);
  const Tensor log = mapped(graph, CUDNN_POINTWISE_LOG, sum);
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, log, x.lse());
  // 3. o = p v
  const Tensor probabilities = graph.value(scores, p.type);
  graph.pointwise(CUDNN_POINTWISE_DIV, e, sum, probabilities);
  graph.matmul(probabilities, x.rows(t_v, p.kv_heads), x.rows(t_o, p.heads));
}

void add_backward(Graph& graph, const AttentionProblem& p) {
  const Operands x(graph, p);
  const Extents scores{p.batch, p.heads, p.sequence, p.sequence};
  const Extents sums{p.batch, p.heads, p.sequence, 1};
  const Tensor q = x.rows(t_q, p.heads), k = x.columns(t_k, p.kv_heads),
               d_o = x.rows(t_do, p.heads), scale = graph.scalar(t_scale);
  // 1. delta
  const Tensor terms = combined(graph, CUDNN_POINTWISE_MUL, d_o, x.rows(t_o, p.heads));
  const Tensor row_sums = graph.value(sums);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, terms, row_sums);
  const Tensor delta = graph.memory(t_delta, CUDNN_DATA_FLOAT, sums, dense(sums));
  graph.pointwise(CUDNN_POINTWISE_MUL, row_sums, graph.scalar(t_one), delta);
  // 2. p = e^(s - lse) and dv = p^T do
  const Tensor products = graph.value(scores);
  graph.matmul(q, k, products);
  const Tensor scaled = combined(graph, CUDNN_POINTWISE_MUL, products, scale);
  const Tensor shifted = combined(graph, CUDNN_POINTWISE_SUB, scaled, x.lse());
  const Tensor s = graph.lower_triangle(shifted, graph.scalar(t_minus_infinity));
  const Tensor e = mapped(graph, CUDNN_POINTWISE_EXP, s);
  add_key_gradient(graph, transposed(graph, e, p.type), d_o, x.rows(t_dv, p.kv_heads),
                   p.type);
  // 3. ds = scale p (do v^T - delta)
  const Tensor dp = graph.value(scores);
  graph.matmul(d_o, x.columns(t_v, p.kv_heads), dp);
  const Tensor centred = combined(graph, CUDNN_POINTWISE_SUB, dp, delta);
  const Tensor weighted = combined(graph, CUDNN_POINTWISE_MUL, centred, e);
  const Tensor ds = combined(graph, CUDNN_POINTWISE_MUL, weighted, scale);
  // 4. dk = ds^T q, dq = ds k
  add_key_gradient(graph, transposed(graph, ds, p.type), q, x.rows(t_dk, p.kv_heads),
                   p.type);
  const Tensor dq = x.rows(t_dq, p.heads), keys = transposed(graph, k, p.type);
  if (p.ordered) return graph.matmul(ds, keys, dq);
  const Tensor sums_of_dq =
      graph.memory(t_dq_sums, CUDNN_DATA_FLOAT, dq.dims, dense(dq.dims));
  graph.matmul(ds, keys, sums_of_dq);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, sums_of_dq, dq);
}

}  // namespace trireme::kernels::cuda
