// Ends the process with a message.
// SPDX-License-Identifier: Apache-2.0
// What a real GPU would do wrong in silence is an error here.
#pragma once

#include <string>

namespace trireme::cuda_emulation {

// Writes "CUDA emulation: MESSAGE" to stderr and aborts.
[[noreturn]] void fail(const std::string& message);

}  // namespace trireme::cuda_emulation
