// Stores to global memory of up to 16 bytes at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace trireme::kernels::cuda {

// Source: PTX ISA, st.
template <int words>
__device__ __forceinline__ void store_words(void* to, const std::uint32_t* from) {
  const auto address = __cvta_generic_to_global(to);
  if constexpr (words == 4) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
  } else if constexpr (words == 2) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                 :
                 : "l"(address), "r"(from[0]), "r"(from[1])
                 : "memory");
  } else {
    asm volatile("st.global.b32 [%0], %1;" : : "l"(address), "r"(from[0]) : "memory");
  }
}

// Writes a struct in global memory, aligned as its type is, by accesses of 16 bytes, or
// of all of it if it is smaller. An assignment the compiler may take apart and write
// element by element: it does so in half of the kernels.
template <class Struct>
__device__ __forceinline__ void store_whole(Struct* to, const Struct& from) {
  constexpr std::size_t size = sizeof(Struct);
  constexpr std::size_t width = alignof(Struct) < 16 ? alignof(Struct) : 16;
  if constexpr (width < 4) {
    *to = from;
  } else {
    static_assert(size % width == 0);
    std::uint32_t words[size / 4];
    memcpy(words, &from, size);
#pragma unroll
    for (std::size_t i = 0; i < size / width; ++i)
      store_words<width / 4>(reinterpret_cast<unsigned char*>(to) + i * width,
                             words + i * (width / 4));
  }
}

}  // namespace trireme::kernels::cuda
