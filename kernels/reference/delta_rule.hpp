// The gated delta rule and the convolution before it in double: the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/causal_conv.hpp"
#include "kernels/delta_rule.hpp"
#include "kernels/reference/numbers.hpp"

namespace trireme::kernels::reference {

// All inputs of delta_rule(), or their gradients: q and k [T, H K], v [T, G V], g and
// beta [T, G].
struct DeltaVectors {
  Vector q, k, v, g, beta;
};

// Row by row, as delta_rule.hpp says it. starts_T: where each row's document begins in
// its sequence. `state` [B G, K V], where given, is what sequences go on from and end
// with.
Vector delta_rule(const DeltaShape& shape, const DeltaVectors& in,
                  std::span<const int> starts_T, Vector* state = nullptr);

// The gradients of <o, d_o>, from the last row to the first.
DeltaVectors delta_rule_backward(const DeltaShape& shape, const DeltaVectors& in,
                                 std::span<const int> starts_T, const Vector& d_o);

// u of causal_conv() and, from the gradient of its silu, those of x and of the weight.
struct ConvGradients {
  Vector x, weight;
};
Vector causal_conv(std::int64_t sequence, std::span<const int> starts_T, const Vector& x,
                   const Vector& weight, std::int64_t taps);
ConvGradients causal_conv_backward(std::int64_t sequence, std::span<const int> starts_T,
                                   const Vector& x, const Vector& weight,
                                   std::int64_t taps, const Vector& dy);

}  // namespace trireme::kernels::reference
