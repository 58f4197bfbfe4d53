// A group for planning: it has a size and a rank, and sends nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "comm/transport.hpp"

namespace trireme::comm {

// Collectives check shapes, count bytes and staging as the transport would, and complete
// at once. Also serves groups of one rank, where it copies what a collective of one
// copies.
std::unique_ptr<Group> make_meta_group(std::string name, int rank, int size);

// The same for a plan of a job on GPUs: where their messages pass through the host, the
// pinned memory that each collective of a GPU's tensor takes there is counted too; where
// they do not, nothing of theirs is. Tensors on `planned_host` stand for the host's.
std::unique_ptr<Group> make_planned_group(std::string name, int rank, int size,
                                          Transport transport);
inline constexpr Device planned_host{DeviceKind::meta, 1};

// From now on a collective of GPU tensors on `group` throws Error(internal), as on a real
// NCCL group for which no communicator was made (GroupUse). Sends and receives still
// work. `group`: from make_planned_group() with Transport::nccl.
void forbid_collectives(Group& group);

}  // namespace trireme::comm
