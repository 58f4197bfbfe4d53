// How the threads of this process meet signals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

// Blocks every signal that can come at any moment, in the calling thread and in all that
// it starts from here on. Signals that a fault of the thread itself raises stay as they
// are, and so do those of job control (SIGTSTP, SIGTTIN, SIGTTOU, SIGQUIT), which have no
// handler. A process calls it before its first thread is made: products that oneDNN
// compiles at run time point the stack pointer into a heap buffer, where the kernel would
// write the frame of a handler (docs/decisions/signals.md).
void block_signals();

// Gives the calling thread an alternate stack for handlers until the thread ends; keeps
// one that it has. Throws Error(resources) when there is no memory for it.
void use_signal_stack();

}  // namespace trireme
