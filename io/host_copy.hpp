// HostCopy: what lies on a GPU, in host memory for a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/device_memory.hpp"
#include "base/memory.hpp"

namespace trireme::io {

// A staging buffer in pinned host memory for one tensor at a time; it grows to the
// largest. Tensors on the host are used where they are.
class HostCopy {
 public:
  // The values of `x` (dense, or a matrix), valid until the next call.
  TensorView read(const TensorView& x) {
    const TensorView host = staging(x);
    Stream stream(x.device());
    copy_bytes(stream, x, host);
    return host;
  }
  // Calls fill(view) with a view like `x` on the host, and makes x what fill left there.
  template <class Fill>
  void write(const TensorView& x, const Fill& fill) {
    const TensorView host = staging(x);
    fill(host);
    Stream stream(x.device());
    copy_bytes(stream, host, x);
    stream.synchronize();
  }

 private:
  TensorView staging(const TensorView& x) {
    if (!x.device().is_cuda()) return x;
    const auto bytes = static_cast<std::int64_t>(x.bytes());
    if (bytes_ < bytes) {
      bytes_ = bytes;
      buffer_ = Buffer();  // given up before the larger one is made
      buffer_ =
          Buffer::pinned(DType::u8, {bytes}, MemoryClass::data, "tensor for a file");
    }
    return TensorView(buffer_.view().raw(), x.dtype(), x.shape());
  }

  std::int64_t bytes_ = 0;
  Buffer buffer_;
};

}  // namespace trireme::io
