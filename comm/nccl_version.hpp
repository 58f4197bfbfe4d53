// The version of NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::comm {

// "2.28.9", or "not built in".
std::string nccl_version();

}  // namespace trireme::comm
