// Whether sums over replicas are part of CUDA graphs, for the rules and the executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/run_config.hpp"

namespace trireme::config {

// They begin between the kernels of a step's last backward, and a graph ends when all in
// it has ended. Of a pipeline's stage that one is not recorded: the stage before would
// get its gradient behind the sums. Neither is it with HYBRID_SHARD, whose copies are
// summed bucket by bucket as shards come together.
inline bool records_sums(const RunConfig& config) {
  return config.run.cuda_graphs && config.run.backend == comm::Backend::nccl &&
         config.parallel.mesh.pipeline == 1 &&
         config.parallel.sharding < optim::Sharding::gradients && !config.has_stand_ins();
}

}  // namespace trireme::config
