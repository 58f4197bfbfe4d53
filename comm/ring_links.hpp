// Which ranks of a ring are linked, in the order in which a rank makes its links.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

namespace trireme::comm {

using Link = std::pair<int, int>;  // the rank that sends, the rank that receives

// The links between `rank` and its two neighbours in a ring of `size` ranks, each once
// and for both directions. To make a link blocks until both of its ranks do so. Pairs (r,
// r + 1) with an even r come first, then those with an odd one, then the last pair of an
// odd ring: pairs of one kind have no rank in common and are made at the same time, so
// that a ring of any size is made in at most six such waits, and no rank waits in a
// circle. A ring of one rank has no links.
std::vector<Link> ring_links(int rank, int size);

}  // namespace trireme::comm
