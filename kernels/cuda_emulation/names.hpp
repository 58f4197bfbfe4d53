// Operations, places and kernels in words, for messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cuda_emulation/thread.hpp"

namespace trireme::cuda_emulation {

std::string describe(WarpOperation operation, unsigned mask);
std::string describe(BlockOperation operation);
std::string describe(const Source& where);
std::string describe(uint3 index);
std::string function_name(const void* function);

}  // namespace trireme::cuda_emulation
