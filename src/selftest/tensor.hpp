// Tensors on the device under test, written and read from the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "kernels/reference/numbers.hpp"

namespace trireme::selftest {

using kernels::reference::added;
using kernels::reference::largest;
using kernels::reference::norm;
using kernels::reference::rounded;
using kernels::reference::roundoff;
using kernels::reference::storing;
using kernels::reference::Vector;

// A tensor of floating numbers that owns its memory. With `padding` a matrix is a range
// of columns of one that is wider by so many columns on both sides, so that its rows are
// strided.
class Tensor {
 public:
  Tensor(Device device, DType dtype, const Shape& shape, std::int64_t padding = 0);

  operator const TensorView&() const { return view_; }  // NOLINT: stands for its view
  const TensorView& view() const { return view_; }
  void set(const Vector& values) const;
  // Waits until all work that was queued on the device is done.
  Vector values() const;

 private:
  Buffer buffer_;
  TensorView view_;
};

// A tensor of i32.
class Integers {
 public:
  Integers(Device device, const Shape& shape, std::vector<std::int32_t> values = {});

  operator const TensorView&() const { return buffer_.view(); }  // NOLINT: as above
  const TensorView& view() const { return buffer_.view(); }
  std::vector<std::int32_t> values() const;

 private:
  Buffer buffer_;
};

// A matrix of codes of FP8.
class Codes {
 public:
  Codes(Device device, std::int64_t rows, std::int64_t columns);

  const TensorView& view() const { return buffer_.view(); }
  void set(std::vector<std::uint8_t> values) const;
  std::vector<std::uint8_t> values() const;

 private:
  Buffer buffer_;
};

// What lies on a device, in the host's memory.
Buffer on_host(const TensorView& x);
// The elements of a floating tensor on any device, row by row.
Vector values_of(const TensorView& x);

}  // namespace trireme::selftest
