// Switch of contexts by POSIX's ucontext: slower, as it also switches the signal mask.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/context.hpp"

#include <ucontext.h>

#include <cstdint>
#include <new>

#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation {

Context make_context(char* bottom, char* top, void (*entry)()) {
  // The context itself lies at the top of its stack.
  const auto at =
      (reinterpret_cast<std::uintptr_t>(top) - sizeof(ucontext_t)) & ~std::uintptr_t{63};
  auto* context = new (reinterpret_cast<void*>(at)) ucontext_t;
  if (::getcontext(context) != 0) fail("getcontext failed");
  context->uc_stack.ss_sp = bottom;
  context->uc_stack.ss_size = at - reinterpret_cast<std::uintptr_t>(bottom);
  context->uc_link = nullptr;
  ::makecontext(context, entry, 0);
  return {context};
}

void switch_context(Context& from, Context& to) {
  ucontext_t host;
  if (from.state == nullptr)
    from.state = &host;  // the host's own flow, which was not made
  const bool is_host = from.state == &host;
  if (::swapcontext(static_cast<ucontext_t*>(from.state),
                    static_cast<ucontext_t*>(to.state)) != 0) {
    fail("swapcontext failed");
  }
  if (is_host) from.state = nullptr;
}

}  // namespace trireme::cuda_emulation
