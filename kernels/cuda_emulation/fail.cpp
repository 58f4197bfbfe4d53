// Ends the process with a message.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/fail.hpp"

#include <cstdio>
#include <cstdlib>

namespace trireme::cuda_emulation {

void fail(const std::string& message) {
  std::fprintf(stderr, "CUDA emulation: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme::cuda_emulation
