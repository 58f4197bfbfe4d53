// Messages of bytes that no tensor has, between ranks of a group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "comm/group.hpp"

namespace trireme::train {

// `bytes` bytes of host memory as a tensor.
inline TensorView bytes_of(void* data, std::int64_t bytes) {
  return {data, DType::u8, {bytes}};
}

// Sends what rank `root` has at `data` to all ranks of the group, and waits; nothing for
// 0 bytes. Collective over the group.
inline void broadcast_bytes(comm::Group& group, void* data, std::int64_t bytes,
                            int root) {
  if (bytes == 0) return;
  Stream stream;
  group.broadcast(stream, bytes_of(data, bytes), root).wait();
}

}  // namespace trireme::train
