// Tensors of whole numbers on the device of the test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "support/device.hpp"

namespace trireme::test {

// An i32 tensor that owns its memory.
class Integers {
 public:
  explicit Integers(const Shape& shape, std::vector<std::int32_t> v = {})
      : buffer_(test_device(), DType::i32, shape, MemoryClass::data, "test") {
    v.resize(static_cast<std::size_t>(shape.elements()));
    Stream stream(test_device());
    copy_bytes(stream, TensorView(v.data(), DType::i32, shape), view());
  }
  operator const TensorView&() const { return view(); }  // NOLINT: stands for its view
  const TensorView& view() const { return buffer_.view(); }
  std::vector<std::int32_t> values() const {
    std::vector<std::int32_t> v(static_cast<std::size_t>(view().elements()));
    Stream stream(test_device());
    copy_bytes(stream, view(), TensorView(v.data(), DType::i32, view().shape()));
    return v;
  }

 private:
  Buffer buffer_;
};

}  // namespace trireme::test
