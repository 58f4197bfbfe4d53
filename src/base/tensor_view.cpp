// TensorView: slicing and reshaping.
// SPDX-License-Identifier: Apache-2.0
#include "base/tensor_view.hpp"

namespace trireme {
namespace {

Shape dense_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

void* advance(void* data, std::int64_t elements, DType dtype) {
  if (data == nullptr) return nullptr;
  return static_cast<std::byte*>(data) +
         elements * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

TensorView::TensorView(void* data, DType dtype, const Shape& shape, Device device)
    : data_(data),
      shape_(shape),
      strides_(dense_strides(shape)),
      dtype_(dtype),
      device_(device) {}

bool TensorView::is_dense() const {
  std::int64_t step = 1;
  for (int i = shape_.rank() - 1; i >= 0; --i) {
    if (shape_[i] > 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

TensorView TensorView::rows(std::int64_t begin, std::int64_t count) const {
  require(begin >= 0 && count >= 0 && begin + count <= dim(0),
          "rows [{}, {}) of a tensor {}", begin, begin + count, shape_);
  TensorView part = *this;
  part.shape_[0] = count;
  part.data_ = advance(data_, begin * stride(0), dtype_);
  return part;
}

TensorView TensorView::columns(std::int64_t begin, std::int64_t count) const {
  require(shape_.rank() == 2, "columns of a tensor {} that is no matrix", shape_);
  require(begin >= 0 && count >= 0 && begin + count <= dim(1),
          "columns [{}, {}) of a tensor {}", begin, begin + count, shape_);
  TensorView part = *this;
  part.shape_[1] = count;
  part.data_ = advance(data_, begin, dtype_);
  return part;
}

TensorView TensorView::reshape(const Shape& shape) const {
  require(is_dense(), "a strided tensor {} cannot be reshaped", shape_);
  require(shape.elements() == elements(), "a tensor {} cannot take the shape {}", shape_,
          shape);
  return TensorView(data_, dtype_, shape, device_);
}

}  // namespace trireme
