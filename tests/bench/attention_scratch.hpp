// Working space for attention in benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/memory.hpp"
#include "kernels/attention.hpp"

namespace trireme::bench {

// The scratch that attention takes is measured on meta.
inline Arena scratch_for(DType type, Device device, const kernels::AttentionShape& shape,
                         bool backward) {
  const Device meta = Device::meta();
  const std::int64_t T = shape.batch * shape.sequence;
  const TensorView x(nullptr, type, {T, shape.heads * shape.head_width}, meta);
  const TensorView lse(nullptr, DType::f32, {T, shape.heads}, meta);
  Arena arena(meta, 0, MemoryClass::workspace, "attention");
  Stream stream(meta);
  if (backward) {
    kernels::attention_backward(stream, arena, shape, x, x, x, x, x, lse, x, x, x);
  } else {
    kernels::attention(stream, arena, shape, x, x, x, x, lse);
  }
  return Arena(device, arena.peak_bytes() + 64, MemoryClass::workspace, "attention");
}

}  // namespace trireme::bench
