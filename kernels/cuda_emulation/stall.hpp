// Finds that all processes that share work wait for each other.
// SPDX-License-Identifier: Apache-2.0
//
// A kernel that spins waits for another process, and on a real device a deadlock is a
// hang. Here each process counts, in memory that the others read, what it has done and
// how often its host has looked in vain. When every process of the job has looked often
// enough and none has done anything, none ever will: that is told, without a time limit.
// A host that computes, or waits outside of CUDA without asking the device, counts as
// one that does something.
#pragma once

#include <string>

namespace trireme::cuda_emulation {

// The caller's host has called, or work of its device has come on.
void note_progress();
// The host waits for the device, or asked it, and nothing has come. Yields the core; ends
// the process with a message where all processes wait.
void note_vain_look();

// Who reads a process's counters, as another process may name it.
struct StallPage {
  int process = 0, file = 0;
};
StallPage own_stall_page();
// From now on `page`'s process counts as one of the job.
void add_stall_page(StallPage page);

// What kernels that spin are waiting for, in words: for the message. Called when it is
// written.
void describe_waiting(std::string (*describe)());

}  // namespace trireme::cuda_emulation
