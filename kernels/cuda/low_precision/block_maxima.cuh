// Largest magnitudes of blocks of numbers on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::kernels::cuda {

// The largest magnitude of x[c .. c + W) of each block goes into `maxima`, as the bits of
// a float; not a number counts as infinity. `block_of(c)` is the place of element c's
// block in `maxima`. A thread has W neighbours, mostly of one block, and adds what is
// larger than what it sees: maxima may be taken in any order.
template <int W, class F>
__device__ void add_block_maxima(const float* x, unsigned* maxima, std::int64_t c,
                                 const F& block_of) {
  constexpr unsigned infinity = 0x7f800000u;
  const auto note = [maxima](std::int64_t block, unsigned most) {
    if (maxima[block] < most) atomicMax(maxima + block, most);
  };
  std::int64_t block = block_of(c);
  unsigned most = 0;
  for (int i = 0; i < W; ++i) {
    const std::int64_t mine = block_of(c + i);
    if (mine != block) {
      note(block, most);
      block = mine;
      most = 0;
    }
    most = max(most, min(__float_as_uint(x[c + i]) & 0x7fffffffu, infinity));
  }
  note(block, most);
}

}  // namespace trireme::kernels::cuda
