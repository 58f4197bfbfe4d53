// How much of causal attention falls to a rank of the context axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/context_order.hpp"

namespace trireme::test {

// (query, key) pairs that rank `rank` has to compute for one head of one sequence of
// `sequence` positions.
inline std::int64_t context_pairs(parallel::ContextOrder order, std::int64_t sequence,
                                  int ranks, int rank) {
  std::int64_t pairs = 0;
  for (int source = 0; source < ranks; ++source)
    if (const auto part = parallel::visible_part(order, sequence / ranks, rank, source))
      pairs += part->pairs();
  return pairs;
}

}  // namespace trireme::test
