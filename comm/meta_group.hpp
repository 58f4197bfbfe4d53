// A group for planning: it has a size and a rank, and sends nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"

namespace trireme::comm {

// Collectives check shapes, count bytes and staging as the transport would, and complete
// at once. Also serves groups of one rank, where it copies what a collective of one
// copies.
std::unique_ptr<Group> make_meta_group(std::string name, int rank, int size);

}  // namespace trireme::comm
