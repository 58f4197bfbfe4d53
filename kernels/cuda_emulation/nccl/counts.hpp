// How much of the emulated NCCL this process has made, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::cuda_emulation::nccl {

// Communicators that exist now; connections between pairs that were ever made; sets of
// communicators that share resources, one that shares with no other being a set as well.
struct Counts {
  int communicators = 0, connections = 0, families = 0;
};
Counts counts();

}  // namespace trireme::cuda_emulation::nccl
