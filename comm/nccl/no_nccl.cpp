// NCCL in a build without it.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_version.hpp"

namespace trireme::comm {

std::string nccl_version() { return "not built in"; }

}  // namespace trireme::comm
