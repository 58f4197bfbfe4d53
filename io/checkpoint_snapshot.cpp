// A copy of what a checkpoint holds, so that training can go on while it is written.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_snapshot.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/device_memory.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t aligned_bytes(const TensorBox& box) {
  if (!box.write) return 0;
  const auto bytes =
      box.data.elements() * static_cast<std::int64_t>(size_of(box.data.dtype()));
  return (bytes + alignment - 1) / alignment * alignment;
}

// Keeps the promise at its end, by an exception too: nothing is left to copy.
class Promised {
 public:
  explicit Promised(std::promise<void>& promise) : promise_(promise) {}
  ~Promised() { promise_.set_value(); }
  Promised(const Promised&) = delete;
  Promised& operator=(const Promised&) = delete;

 private:
  std::promise<void>& promise_;
};

}  // namespace

std::int64_t CheckpointSnapshot::bytes_for(const std::vector<TensorBox>& boxes) {
  std::int64_t bytes = 0;
  for (const auto& box : boxes) bytes += aligned_bytes(box);
  return bytes;
}

CheckpointSnapshot::CheckpointSnapshot(const std::vector<TensorBox>& boxes) {
  const std::int64_t bytes = bytes_for(boxes);
  if (bytes == 0) return;
  const bool on_gpu = std::any_of(boxes.begin(), boxes.end(), [](const TensorBox& box) {
    return box.data.device().is_cuda();
  });
  constexpr auto use = MemoryClass::offloaded;
  constexpr auto label = "copy for a checkpoint";
  memory_ = on_gpu ? Buffer::pinned(DType::u8, {bytes}, use, label)
                   : Buffer(Device::host(), DType::u8, {bytes}, use, label);
  // The system hands out pages when they are first written to, at less than half the rate
  // of a copy: now, not in the first save.
  if (!on_gpu) std::memset(memory_.view().raw(), 0, static_cast<std::size_t>(bytes));
}

CheckpointSnapshot::Copies CheckpointSnapshot::begin(
    const std::vector<TensorBox>& boxes) {
  require(bytes_for(boxes) == static_cast<std::int64_t>(memory_.bytes()),
          "a copy of {} bytes for boxes of {}", memory_.bytes(), bytes_for(boxes));
  Copies copies{boxes, {}};
  std::vector<std::pair<TensorView, TensorView>> left;
  std::vector<std::pair<std::function<void(std::int64_t, const TensorView&)>, TensorView>>
      unread;
  std::optional<Stream> device;
  Stream host;
  std::int64_t at = 0;
  for (auto& box : copies.boxes) {
    const std::int64_t bytes = aligned_bytes(box);
    if (bytes == 0) continue;
    const TensorView copy(memory_.view().rows(at, bytes).raw(), box.data.dtype(),
                          box.data.shape());
    if (box.fill) {
      const auto fill = std::exchange(box.fill, nullptr);
      if (box.until_update)
        unread.emplace_back(fill, copy);
      else
        fill(0, copy);
    } else if (box.data.device().is_cuda()) {
      if (!device) device.emplace(box.data.device());
      copy_bytes_later(*device, box.data, copy);
    } else if (box.until_update) {
      left.emplace_back(box.data, copy);
    } else {
      copy_bytes(host, box.data, copy);
    }
    box.data = copy;
    at += bytes;
  }
  if (device) device->synchronize();
  auto done = std::make_shared<std::promise<void>>();
  copied_ = done->get_future();
  copies.later = [done = std::move(done), left = std::move(left),
                  unread = std::move(unread)] {
    const Promised promised(*done);
    Stream stream;
    for (const auto& [from, to] : left) copy_bytes(stream, from, to);
    for (const auto& [fill, to] : unread) fill(0, to);
  };
  return copies;
}

void CheckpointSnapshot::wait() {
  if (copied_.valid()) copied_.wait();
}

}  // namespace trireme::io
