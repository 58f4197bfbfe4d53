// What the compiler keeps in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels::cuda {

// The same number, of which the compiler does not know that it is: what is computed of it
// in a loop is computed there each time, and takes no register while the loop runs.
__device__ __forceinline__ int recomputed(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

}  // namespace trireme::kernels::cuda
