// Switch of contexts on x86-64 with the System V calling convention.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda_emulation/context.hpp"

// Saves the registers that a callee must keep on the old stack, and takes them from the
// new one. Rounding modes are not switched: kernels do not change them.
asm(R"(
  .text
  .p2align 4
  .globl trireme_cuda_emulation_switch
  .hidden trireme_cuda_emulation_switch
  .type trireme_cuda_emulation_switch, @function
trireme_cuda_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size trireme_cuda_emulation_switch, . - trireme_cuda_emulation_switch
)");
extern "C" void trireme_cuda_emulation_switch(void** from, void* to);

namespace trireme::cuda_emulation {

Context make_context(char*, char* top, void (*entry)()) {
  // From the top: 0 as the caller of `entry`, where unwinding ends; the address that the
  // switch returns to; six registers. `entry` then finds the stack as after a call.
  auto* words = reinterpret_cast<std::uintptr_t*>(reinterpret_cast<std::uintptr_t>(top) &
                                                  ~std::uintptr_t{15});
  *--words = 0;
  *--words = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 0; i < 6; ++i) *--words = 0;
  return {words};
}

void switch_context(Context& from, Context& to) {
  trireme_cuda_emulation_switch(&from.state, to.state);
}

}  // namespace trireme::cuda_emulation
