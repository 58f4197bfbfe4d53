// Working memory of the kernels of a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// A dense tensor whose contents are undefined, for work that is queued on `stream` before
// the next call; aligned to 256 bytes. There is one buffer for each GPU. It only ever
// grows, so that the steady state allocates nothing; to grow it waits for the GPU.
// `stream` must be the one on which the process computes there: on another one, work
// would overtake what still uses the buffer. Calls from several threads do not disturb
// the buffer, but which of them uses it is then theirs to agree on.
// Throws Error(internal) for another stream and Error(resources) without memory.
TensorView workspace(Stream& stream, DType dtype, const Shape& shape);

// What the buffer holds once so much was asked for.
std::int64_t workspace_held(std::int64_t bytes);
// Makes it that large now, if it is smaller.
void reserve_workspace(Stream& stream, std::int64_t bytes);
// Gives it back, after waiting for the GPU.
void release_workspace(Stream& stream);
// How often the buffer of `device` was made or given back so far: what was recorded with
// its address before is no longer valid after.
std::int64_t workspace_moves(Device device);
// The most that workspace() was asked for since the buffer of `device` was given back.
std::int64_t workspace_used(Device device);

}  // namespace trireme::kernels::cuda
