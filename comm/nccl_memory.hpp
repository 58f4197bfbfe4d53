// What NCCL takes of a GPU's memory: counted in communicators, and an estimate in bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/mesh.hpp"

namespace trireme::comm {

// Of the first rank of a mesh.
struct NcclCount {
  int communicators = 0;  // one for each list of ranks that groups have, and the world's
  int links = 0;          // one for each direction between two ranks that send
  // An estimate: it has not been measured.
  std::int64_t estimated_bytes() const;
};
NcclCount count_nccl(const MeshShape& shape, const Folding& folding,
                     const GroupUse& use = {});

}  // namespace trireme::comm
