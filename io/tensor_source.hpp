// TensorSource: where a model's tensors are read from, box by box.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/tensor_view.hpp"

namespace trireme::io {

class TensorSource {
 public:
  TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;
  virtual ~TensorSource() = default;

  // Reads a box of the tensor `path` ("model/<name>") of shape `whole` into `out`, on the
  // host or a GPU, converting between floating dtypes (to nearest, ties to even). Throws
  // Error(bad_content) when the tensor is absent or has another shape.
  virtual void read(const std::string& path, const Shape& whole, const Shape& begin,
                    const TensorView& out) const = 0;
};

}  // namespace trireme::io
