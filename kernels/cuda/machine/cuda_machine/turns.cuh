// Turns that blocks of a kernel take at memory, so that sums have one order.
// SPDX-License-Identifier: Apache-2.0
//
// A counter in global memory says whose turn it is. One thread of a block waits for the
// block's turn, and one, that or another, gives the next one when the block is done;
// barriers of the block lie between them and all others. A block may only wait for blocks
// that have started: those with an earlier ticket.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace trireme::kernels::cuda {

// Waits until it is turn `turn`. After a barrier the block then sees what blocks of
// earlier turns wrote. Source: PTX ISA, ld.acquire.
__device__ __forceinline__ void wait_for_turn(const unsigned* counter, unsigned turn) {
  unsigned now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(now)
                 : "l"(__cvta_generic_to_global(counter))
                 : "memory");
  } while (now != turn);
}

// Makes it turn `turn`, for blocks that then see what this block wrote before its last
// barrier. Source: PTX ISA, fence (which is cumulative) and st.relaxed.
__device__ __forceinline__ void give_turn(unsigned* counter, unsigned turn) {
  asm volatile("fence.acq_rel.gpu;\n\tst.relaxed.gpu.global.u32 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(counter)), "r"(turn)
               : "memory");
}

// Four numbers that other blocks may have written, aligned to 16 bytes: past the first
// cache, which may hold older ones. Source: PTX ISA, ld.global.cg.
__device__ __forceinline__ void load_fresh(const float* from, float (&to)[4]) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
}

}  // namespace trireme::kernels::cuda
