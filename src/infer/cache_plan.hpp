// How many blocks the cache of a batch has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/group.hpp"
#include "infer/lane.hpp"

namespace trireme::infer {

struct CachePlan {
  std::vector<CacheGroup> groups;  // blocks of all lanes
  std::int64_t texts_of_lane = 0;
};

// As many blocks as the longest texts that may run at once need, or what fits into
// options.cache_bytes on the rank with the largest share. Collective over the model's
// ranks, so that all have the same numbers of blocks. Throws Error(resources) where it
// does not hold the longest text.
CachePlan plan_blocks(const LoadedModel& model, comm::Group& pipeline,
                      const BatchOptions& options,
                      const std::vector<Generation>& generations, int lanes);

}  // namespace trireme::infer
