// NCCL in a build without it.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "comm/nccl_transport.hpp"
#include "comm/nccl_version.hpp"

namespace trireme::comm {

std::string nccl_version() { return "not built in"; }

bool nccl_is_built() { return false; }

std::unique_ptr<DeviceTransport> make_nccl_transport(MpiGroup&, Device, Links, bool) {
  fail(Status::resources,
       "this program was built without NCCL: build it with -DTRIREME_CUDA=ON "
       "-DTRIREME_NCCL=ON, or "
       "set comm.backend = \"mpi\"");
}

}  // namespace trireme::comm
