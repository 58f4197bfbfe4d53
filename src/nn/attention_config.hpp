// AttentionConfig: what an attention module is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "nn/linear.hpp"

namespace trireme::nn {

// RMSNorm of queries and of keys, before they are rotated: of each head, or of all heads
// of a token at once.
enum class QkNorm : std::uint8_t { none, heads, wide };

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
  double norm_eps = 1e-5, norm_offset = 0;  // see NormConfig::gain_offset; of each head
  double deviation = 0.02;                  // initial standard deviation of q, k, v
  double output_deviation = 0.02;           // of the output projection
  // Names of the tensors without ".weight". Either q, k, v are three tensors, or q names
  // one fused tensor [(H + 2 G) K, D], and k and v are empty: of all queries, keys and
  // values, or, where H = G, of the query, key and value of one head after another.
  std::string q, k, v, output, q_norm, k_norm;
  bool fused_by_head = false;
  // Each head's output is multiplied by sigma of a gate: rows of q's tensor, K of the
  // query and then K of the gate for each head. Then k and v have tensors of their own.
  bool output_gate = false;
  // Name of the tensor of sinks (kernels/attention_sinks.hpp), a number for each query
  // head; empty: there are none.
  std::string sinks{};
  LinearPrecision products{};  // of the projections
};

}  // namespace trireme::nn
