// GradientSums: sums over replicas that are part of a recorded graph.
// SPDX-License-Identifier: Apache-2.0
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
}

}  // namespace trireme::optim
