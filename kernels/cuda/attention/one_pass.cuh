// Attention backward in one pass, on tensor cores: when, and the memory that it takes.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, K head width.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/operands.cuh"

namespace trireme::kernels::cuda {

// Whether a head of this width is done in one pass where a block has so many bytes of
// shared memory. Width is one that tensor cores do.
bool one_pass_fits(std::int64_t width, std::int64_t shared_bytes);

// Bytes of workspace for dq's sums in fp32 and the counters of turns: a multiple of 256.
std::int64_t one_pass_bytes(std::int64_t B, std::int64_t heads, std::int64_t queries,
                            std::int64_t width);

// As backward_tensor_core. `memory`: one_pass_bytes(), aligned to 256 bytes, undefined.
template <class T>
void backward_one_pass(Stream& stream, std::int64_t B,
                       const BackwardOperands<DeviceType<T>>& x, void* memory);

}  // namespace trireme::kernels::cuda
