// GradientSums: sums over replicas that are part of a recorded graph.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "optim/gradient_sums.hpp"

namespace trireme::optim {

void GradientSums::wait_for_sums() {
  for (FlatState& state : flats_) state.handle.wait();
  for (ReduceBucket& bucket : reduce_buckets_) bucket.handle.wait();
}

void GradientSums::launched(std::span<Param* const> params) {
  const StoreConfig& config = context_.config;
  for (Param* const param : params) {
    const ParamState* const complete = count(*param);
    if (complete != nullptr && !converts_sums(config) &&
        config.sharding == Sharding::none)
      --reduce_buckets_[complete->bucket].pending;
  }
  if (!config.shards_gradients() || converts_sums(config)) return;
  // Copies are summed when all of a bucket has been added up: see settle().
  const auto is_missing = [&](std::size_t f) { return flats_[f].pending > 0; };
  for (const Bucket& bucket : context_.layout.buckets)
    if (std::ranges::none_of(bucket.flats, is_missing))
      for (const std::size_t f : bucket.flats) flats_[f].over_replicas = true;
}

}  // namespace trireme::optim
