// Rates of tiers.
// SPDX-License-Identifier: Apache-2.0
#include "infer/tier_rates.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/device_memory.hpp"
#include "base/event.hpp"
#include "base/memory.hpp"
#include "base/stopwatch.hpp"
#include "io/param_codes.hpp"

namespace trireme::infer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t most_bytes = std::int64_t{64} << 20;

double rate(std::int64_t bytes, Clock::time_point start) {
  const double seconds = seconds_since(start);
  return static_cast<double>(bytes) / std::max(seconds, 1e-9);
}

}  // namespace

double disk_rate(const Placement& placement, std::size_t stage,
                 const model::ModelConfig& config, DType compute,
                 const parallel::TensorRegion& region, const io::TensorSource& source,
                 bool codes) {
  std::set<std::string> on_disk;
  for (std::size_t i = 0; i < placement.pieces.size(); ++i)
    if (has_piece(placement, stage, i) &&
        placement.stages[stage].of_pieces[i] == Tier::disk)
      on_disk.insert(placement.pieces[i].tensors.begin(),
                     placement.pieces[i].tensors.end());
  model::Stage whole({.model = config, .blocks = {0, config.layers}, .dtype = compute},
                     region, Device::meta());
  const NamedBox* largest = nullptr;
  const Param* of_largest = nullptr;
  for (const Param* param : whole.parameters())
    for (const NamedBox& box : param->boxes)
      if (on_disk.contains(box.tensor) && box.extent.elements() > 0 &&
          (largest == nullptr || box.extent.elements() > largest->extent.elements())) {
        largest = &box;
        of_largest = param;
      }
  if (largest == nullptr) return 0;
  Shape part = largest->extent;
  const std::int64_t row_bytes =
      part.elements() / part[0] * static_cast<std::int64_t>(size_of(compute));
  part[0] = std::clamp<std::int64_t>(most_bytes / row_bytes, 1, part[0]);
  if (codes && io::kept_code_bytes(source, *of_largest) > 0) {
    const Clock::time_point start = Clock::now();
    const OwnedCodes read = dynamic_cast<const io::CodeSource&>(source).read_codes(
        "model/" + largest->tensor, largest->whole, largest->global_begin, part);
    return rate(static_cast<std::int64_t>(read.matrix.bytes()), start);
  }
  const Buffer memory(Device::host(), compute, part, MemoryClass::data,
                      "a tensor to be timed");
  const Clock::time_point start = Clock::now();
  source.read("model/" + largest->tensor, largest->whole, largest->global_begin,
              memory.view());
  return rate(static_cast<std::int64_t>(memory.bytes()), start);
}

double copy_rate(Device device) {
  if (!device.is_cuda()) return 0;
  constexpr std::int64_t bytes = most_bytes / 4;
  // The device's first: memory is pinned for the GPU that is used at the time.
  const Buffer to(device, DType::u8, {bytes}, MemoryClass::data, "bytes to be timed");
  const Buffer from =
      Buffer::pinned(DType::u8, {bytes}, MemoryClass::data, "bytes to be timed");
  SideStream side(device);
  copy_bytes(side.stream(), from.view(), to.view());
  side.stream().synchronize();
  const Clock::time_point start = Clock::now();
  copy_bytes(side.stream(), from.view(), to.view());
  side.stream().synchronize();
  return rate(bytes, start);
}

}  // namespace trireme::infer
