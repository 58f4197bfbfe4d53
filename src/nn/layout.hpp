// How weights are cut along the tensor axis, as Params with their boxes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/param.hpp"
#include "base/split.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

// What a range of heads has of something of which each has `width`, behind `first`.
constexpr Range times(const Range& heads, std::int64_t width, std::int64_t first = 0) {
  return {first + heads.begin * width, first + heads.end * width};
}

// A weight that every rank of the tensor axis holds whole: norms, biases added outside
// the region, position tables. 1-D tensors take no weight decay.
Param unsplit_param(const parallel::TensorRegion& region, const std::string& tensor,
                    const Shape& shape, Initializer initializer);

// The same of a weight used inside the region, where each rank sees its part of what
// the weight meets: its gradients are summed.
Param unsplit_inner_param(const parallel::TensorRegion& region, const std::string& tensor,
                          const Shape& shape, Initializer initializer);

// Rows [rows) of the whole tensor (dim 0: output features, vocabulary entries); a 1-D
// tensor is a bias of the split outputs.
Param row_split_param(const std::string& tensor, const Shape& whole, Range rows,
                      Initializer initializer);

// Columns [columns) of the whole matrix (dim 1: input features).
Param column_split_param(const std::string& tensor, const Shape& whole, Range columns,
                         Initializer initializer);

}  // namespace trireme::nn
