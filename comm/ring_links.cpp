// Links of a ring: of even pairs, of odd pairs, and of the last pair of an odd ring.
// SPDX-License-Identifier: Apache-2.0
#include "comm/ring_links.hpp"

#include <algorithm>

namespace trireme::comm {

std::vector<Link> ring_links(int rank, int size) {
  const int before = (rank + size - 1) % size, after = (rank + 1) % size;
  if (size == 1) return {};
  if (size == 2) return {{0, 1}, {1, 0}};
  // Pair i joins ranks i and i + 1: this rank is in two.
  const auto round_of = [&](int pair) {
    return size % 2 == 1 && pair == size - 1 ? 2 : pair % 2;
  };
  std::vector<Link> links = {
      {before, rank}, {rank, before}, {rank, after}, {after, rank}};
  if (round_of(rank) < round_of(before))
    std::rotate(links.begin(), links.begin() + 2, links.end());
  return links;
}

}  // namespace trireme::comm
