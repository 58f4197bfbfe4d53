// GradientSums: sums over replicas that are part of a recorded graph.
// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_sums.hpp"

namespace trireme::optim {

void GradientSums::wait_for_sums() {
  for (FlatState& state : flats_) state.handle.wait();
  for (ReduceBucket& bucket : reduce_buckets_) bucket.handle.wait();
}

// The contributions are those of a step's last microbatch, so that every sum over
// replicas is among what was launched: finish() must not begin one again.
void GradientSums::launched(std::span<Param* const> params) {
  const StoreConfig& config = context_.config;
  for (Param* const param : params) {
    const ParamState* const complete = count(*param);
    if (complete == nullptr || converts_sums(config)) continue;
    if (config.sharding == Sharding::none) --reduce_buckets_[complete->bucket].pending;
    if (config.shards_gradients()) flats_[complete->flat].over_replicas = true;
  }
}

}  // namespace trireme::optim
