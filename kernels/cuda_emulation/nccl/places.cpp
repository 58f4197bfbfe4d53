// Places: which kernels of NCCL are on the emulated device at the same time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/nccl/places.hpp"

#include "kernels/cuda_emulation/nccl/communicator.hpp"
#include "kernels/cuda_emulation/streams.hpp"

namespace trireme::cuda_emulation::nccl {

bool Places::enter(const Kernel& kernel, int limit) {
  if (limit > 0) {
    int used = limit;
    for (const auto& [number, blocks] : small_) used += blocks;
    if (used > small_blocks) return false;
    small_[kernel.issued] = limit;
    return true;
  }
  const std::uint64_t now = Streams::get().rounds();
  asks_.emplace(kernel.issued, now);
  const auto& [oldest, since] = *asks_.begin();
  if (large_ != 0 || oldest != kernel.issued || now < since + 2) return false;
  asks_.erase(asks_.begin());
  large_ = kernel.issued;
  return true;
}

void Places::leave(const Kernel& kernel) {
  asks_.erase(kernel.issued);
  small_.erase(kernel.issued);
  if (large_ == kernel.issued) large_ = 0;
}

Places& places() {
  static Places& of_this_device = *new Places;
  return of_this_device;
}

}  // namespace trireme::cuda_emulation::nccl
