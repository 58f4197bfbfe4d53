// How tensors on the device of a test travel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include "comm/transport.hpp"
#include "support/device.hpp"

namespace trireme::test {

// By MPI, or with TRIREME_TEST_TRANSPORT=nccl in the environment by NCCL, real or
// emulated.
inline comm::Transport test_transport() {
  const char* wanted = std::getenv("TRIREME_TEST_TRANSPORT");
  const bool nccl = wanted != nullptr && std::string(wanted) == "nccl";
  return nccl && test_device().is_cuda() ? comm::Transport::nccl : comm::Transport::mpi;
}

}  // namespace trireme::test
