// Errors of the emulated NCCL that no call returns, on purpose, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

namespace trireme::cuda_emulation::nccl {

// The communicators of this process fail from now on, as where a peer or a network goes
// away: ncclCommGetAsyncError gives `error`, ncclGetLastError `text`, and their calls
// return the error. What runs waits on, until it is aborted.
void fail_asynchronously(ncclResult_t error, const std::string& text);

}  // namespace trireme::cuda_emulation::nccl
