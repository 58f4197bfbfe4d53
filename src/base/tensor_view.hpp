// TensorView: a typed, shaped, non-owning window on memory of a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/device.hpp"
#include "base/dtype.hpp"
#include "base/shape.hpp"

namespace trireme {

// Row-major; the last dim is always dense, other dims may have larger strides (a range of
// columns of a matrix is a view). Copying a view copies no elements. A view on the meta
// device has a shape but no memory.
class TensorView {
 public:
  TensorView() = default;
  // A dense view of `shape` at `data`.
  TensorView(void* data, DType dtype, const Shape& shape, Device device = Device::host());

  bool empty() const { return shape_.rank() == 0; }  // default-constructed: "no tensor"
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int i) const { return shape_[i]; }
  // Elements from one index of dim `i` to the next.
  std::int64_t stride(int i) const { return strides_[i]; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const {
    return static_cast<std::size_t>(elements()) * size_of(dtype_);
  }
  bool is_dense() const;

  // First element as T*. Throws unless T is the element type.
  template <class T>
  T* data() const {
    require(dtype_of<T> == dtype_, "a tensor of {} was read as {}", name_of(dtype_),
            name_of(dtype_of<T>));
    return static_cast<T*>(data_);
  }
  void* raw() const { return data_; }
  // All elements of a dense view.
  template <class T>
  std::span<T> span() const {
    require(is_dense(), "a strided tensor {} has no span", shape_);
    return {data<T>(), static_cast<std::size_t>(elements())};
  }

  // Indices [begin, begin + count) of dim 0.
  TensorView rows(std::int64_t begin, std::int64_t count) const;
  // Indices [begin, begin + count) of the last dim of a matrix; strided.
  TensorView columns(std::int64_t begin, std::int64_t count) const;
  // The same elements under another shape; the view must be dense.
  TensorView reshape(const Shape& shape) const;

 private:
  void* data_ = nullptr;
  Shape shape_;
  Shape strides_;
  DType dtype_ = DType::f32;
  Device device_;
};

}  // namespace trireme
