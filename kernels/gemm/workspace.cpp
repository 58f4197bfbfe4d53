// Working memory of the GEMM.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/workspace.hpp"

#include <array>

#include "base/memory.hpp"

namespace trireme::kernels {

void* workspace(WorkspaceUse use, std::size_t bytes) {
  static std::array<Buffer, 5> blocks;
  Buffer& block = blocks[static_cast<std::size_t>(use)];
  if (block.bytes() < bytes) {
    constexpr std::size_t grain = 1u << 16;
    const auto size = static_cast<std::int64_t>((bytes + grain - 1) / grain * grain);
    block = Buffer();  // first released, so that both are never held at once
    block = Buffer(Device::host(), DType::u8, {size}, MemoryClass::workspace,
                   "gemm workspace");
  }
  return block.view().raw();
}

}  // namespace trireme::kernels
