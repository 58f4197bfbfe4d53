// The call of NCCL that a collective of a group is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include "comm/group.hpp"

namespace trireme::comm {

// Puts `call` on `queue`. size: of the group; peer: of a send or receive, in `comm`.
ncclResult_t issue(const Group::Call& call, const TensorView& from, const TensorView& to,
                   int size, int peer, ncclComm_t comm, cudaStream_t queue);

// On a link the sender is rank 0.
inline int peer_on_link(Collective kind) { return kind == Collective::send ? 1 : 0; }

}  // namespace trireme::comm
