// AttentionConfig: what an attention module is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "nn/dropout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

// RMSNorm of queries and of keys, before they are rotated: of each head, or of all heads
// of a token at once.
enum class QkNorm : std::uint8_t { none, heads, wide };

// Of the norms of queries and keys; see NormConfig.
struct HeadNorms {
  double eps = 1e-5, gain_offset = 0;
};

// What else is in the tensor of queries: of each head its key and its value behind its
// query (H = G), or a gate of as many rows, by whose sigma the head's output is
// multiplied.
enum class QueryTensor : std::uint8_t { plain, fused_by_head, with_gates };

struct AttentionConfig {
  std::int64_t hidden = 0;      // D
  std::int64_t heads = 0;       // H
  std::int64_t kv_heads = 0;    // G, divides H
  std::int64_t head_width = 0;  // K
  bool rotary = false;
  bool neighbours = false;  // of pairs that turn: see kernels::RotaryHeads
  std::int64_t window = 0;  // positions that a query sees, itself the last; 0: all
  bool qkv_bias = false, output_bias = false;
  double scale = 0;  // of the scores; 0: 1 / sqrt(K)
  double cap = 0;    // of the scores (kernels::AttentionShape); 0: none
  QkNorm qk_norm = QkNorm::none;
  HeadNorms head_norms{};
  double deviation = 0.02;         // initial standard deviation of q, k, v
  double output_deviation = 0.02;  // of the output projection
  // Names of the tensors without ".weight". Either q, k, v are three tensors, or q names
  // one fused tensor [(H + 2 G) K, D], and k and v are empty: of all queries, keys and
  // values, or, where H = G, of the query, key and value of one head after another.
  std::string q, k, v, output, q_norm, k_norm;
  QueryTensor query_tensor = QueryTensor::plain;
  // Name of the tensor of sinks (kernels/attention_sinks.hpp), a number for each query
  // head; empty: there are none.
  std::string sinks{};
  DropoutConfig dropout{};     // of the probabilities
  LinearPrecision products{};  // of the projections

  bool fused_by_head() const { return query_tensor == QueryTensor::fused_by_head; }
  bool output_gate() const { return query_tensor == QueryTensor::with_gates; }
};

}  // namespace trireme::nn
