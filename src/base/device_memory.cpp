// Copies between tensors of the host and of devices.
// SPDX-License-Identifier: Apache-2.0
#include "base/device_memory.hpp"

#include <cstring>

#include "base/device_wait.hpp"
#include "base/has_cuda.hpp"

namespace trireme {
namespace {

// True if there is anything to copy.
bool check_copy(const Stream& stream, const TensorView& x, const TensorView& y) {
  require(x.shape() == y.shape() && x.dtype() == y.dtype(), "{}{} was copied to {}{}",
          name_of(x.dtype()), x.shape(), name_of(y.dtype()), y.shape());
  require((x.is_dense() && y.is_dense()) || x.shape().rank() == 2,
          "a strided tensor {} that is no matrix was copied", x.shape());
  const Device device = stream.device();
  if (device.is_meta() || x.device().is_meta() || y.device().is_meta()) return false;
  require((x.device().is_host() || x.device() == device) &&
              (y.device().is_host() || y.device() == device),
          "a tensor was copied on a stream of another device");
  return x.bytes() > 0 && x.raw() != y.raw();
}

void copy_on_host(const TensorView& x, const TensorView& y) {
  if (x.is_dense() && y.is_dense()) {
    std::memmove(y.raw(), x.raw(), x.bytes());
    return;
  }
  const std::size_t bytes = static_cast<std::size_t>(x.dim(1)) * size_of(x.dtype());
  for (std::int64_t i = 0; i < x.dim(0); ++i)
    std::memmove(y.rows(i, 1).raw(), x.rows(i, 1).raw(), bytes);
}

}  // namespace

void copy_bytes_later(Stream& stream, const TensorView& x, const TensorView& y) {
  if (!check_copy(stream, x, y)) return;
  if (x.device().is_host() && y.device().is_host()) return copy_on_host(x, y);
  if constexpr (has_cuda) enqueue_copy(stream, x, y);
}

void copy_bytes(Stream& stream, const TensorView& x, const TensorView& y) {
  // The driver blocks in a copy to memory that is not pinned: by then the GPU is to be
  // through, so that the wait before it is one that sees hangs.
  if (y.device().is_host() && x.device().is_cuda() && start_device_wait())
    stream.synchronize();
  copy_bytes_later(stream, x, y);
  if (y.device().is_host() && x.device().is_cuda()) stream.synchronize();
}

}  // namespace trireme
