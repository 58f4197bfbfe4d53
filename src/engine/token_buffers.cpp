// TokenBuffers: copies of token ids through pinned memory.
// SPDX-License-Identifier: Apache-2.0
#include "engine/token_buffers.hpp"

#include "base/device_memory.hpp"

namespace trireme::engine {

TokenBuffers::TokenBuffers(Device device, std::int64_t slots, std::int64_t tokens) {
  const Shape shape{2 * slots, tokens};
  constexpr auto use = MemoryClass::communication;
  ids_ = Buffer(device, DType::i32, shape, MemoryClass::workspace, "tokens");
  pinned_ = device.is_cuda() ? Buffer::pinned(DType::i32, shape, use, "tokens (pinned)")
                             : Buffer(device, DType::i32, shape, use, "tokens (pinned)");
  for (std::int64_t row = 0; row < shape[0]; ++row) fetched_.emplace_back(device);
}

TensorView TokenBuffers::fetch(Stream& stream, const TensorView& ids_T, std::int64_t slot,
                               bool targets) {
  if (!stream.device().is_cuda()) return ids_T;
  const std::int64_t row = 2 * slot + (targets ? 1 : 0);
  const TensorView pinned = pinned_.view().rows(row, 1).reshape(ids_T.shape());
  const TensorView ids = ids_.view().rows(row, 1).reshape(ids_T.shape());
  Event& fetched = fetched_[static_cast<std::size_t>(row)];
  fetched.synchronize();  // the copy before this one has read what is overwritten
  Stream host(Device::host());
  copy_bytes(host, ids_T, pinned);
  copy_bytes(stream, pinned, ids);
  fetched.record(stream);
  return ids;
}

}  // namespace trireme::engine
