// What the compiler keeps in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace trireme::kernels::cuda {

// The same number, of which the compiler does not know that it is: what is computed of it
// in a loop is computed there each time, and takes no register while the loop runs.
__device__ __forceinline__ int recomputed(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// The same for a struct, such as a group of elements: what they are converted to, for
// one, is converted again.
template <class Struct>
__device__ __forceinline__ Struct recomputed(Struct x) {
  if constexpr (sizeof(Struct) % 4 == 0) {
    std::uint32_t words[sizeof(Struct) / 4];
    memcpy(words, &x, sizeof(Struct));
#pragma unroll
    for (std::uint32_t& word : words) asm volatile("" : "+r"(word));
    memcpy(&x, words, sizeof(Struct));
  }
  return x;
}

}  // namespace trireme::kernels::cuda
