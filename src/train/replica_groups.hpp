// Comparing what the ranks of a group hold alike by hashes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/group.hpp"

namespace trireme::train {

// Of a box: which it is, and its bits.
struct BoxHash {
  std::uint64_t place = 0, bits = 0;
};

// A place that ranks of the group hold with different bits; nothing where there is none.
// Alike on all ranks of the group. In groups of up to `gathered` ranks all tell all,
// so that what only some of them hold is compared, too. In larger ones what all of them
// hold is: by one digest of it all, and box by box only where that differs. What a rank
// sends and keeps does not grow with the ranks. Collective over the group.
std::optional<std::uint64_t> differing_place(comm::Group& group,
                                             std::vector<BoxHash> hashes, int gathered);

}  // namespace trireme::train
