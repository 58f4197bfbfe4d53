// The version of NCCL, as the loaded library tells it.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_version.hpp"

#include <nccl.h>

#include "base/error.hpp"

namespace trireme::comm {

std::string nccl_version() {
  int version = 0;  // 10000 major + 100 minor + patch
  const ncclResult_t code = ncclGetVersion(&version);
  require(code == ncclSuccess, Status::transport, "ncclGetVersion failed: {}",
          ncclGetErrorString(code));
  return format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace trireme::comm
