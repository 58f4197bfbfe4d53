// Dropout of what joins the residual stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "nn/pass.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct DropoutConfig {
  double rate = 0;
  std::uint64_t stream = 0;  // of random numbers: the hash of a layer and a use
};

inline bool drops(const Pass& pass, const DropoutConfig& config) {
  return pass.dropout.active && config.rate > 0;
}

// y_TD (written; may be x_TD) of rows outside the tensor region. The gradient is the same
// call. Only where drops().
void dropout(Pass& pass, const parallel::TensorRegion& region,
             const DropoutConfig& config, const TensorView& x_TD, const TensorView& y_TD);

// For AttentionShape::dropout of these heads of `all`; none unless drops().
kernels::AttentionDropout attention_dropout(const Pass& pass, const DropoutConfig& config,
                                            const Range& heads, std::int64_t all);

// The gradient of x in pass.kept(), or dy_TD itself where nothing is dropped.
TensorView dropout_backward(Pass& pass, const parallel::TensorRegion& region,
                            const DropoutConfig& config, const TensorView& dy_TD);

}  // namespace trireme::nn
