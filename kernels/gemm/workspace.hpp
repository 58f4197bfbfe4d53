// Working memory of the GEMM: one block for each use, which only ever grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::kernels {

enum class WorkspaceUse : std::uint8_t { left, right, result, bias, scratch };

// At least `bytes`, 64-byte aligned, contents undefined; valid until the same use asks
// for more.
void* workspace(WorkspaceUse use, std::size_t bytes);

}  // namespace trireme::kernels
