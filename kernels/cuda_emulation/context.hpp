// A stopped flow of control and the switch between two of them.
// SPDX-License-Identifier: Apache-2.0
// CMake picks one of context_x86_64.cpp (a few nanoseconds) and context_ucontext.cpp
// (any POSIX system).
#pragma once

#include <cstddef>

namespace trireme::cuda_emulation {

struct Context {
  void* state = nullptr;
};

// A context that will call `entry`, which must not return, on the stack [bottom, top).
Context make_context(char* bottom, char* top, void (*entry)());

// Stops here as `from` and goes on as `to`.
void switch_context(Context& from, Context& to);

}  // namespace trireme::cuda_emulation
