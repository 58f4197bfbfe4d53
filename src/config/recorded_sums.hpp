// Whether sums over replicas are part of CUDA graphs, for the rules and the executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/run_config.hpp"

namespace trireme::config {

// They begin between the kernels of a step's last backward, and a graph ends when all in
// it has ended. Of a pipeline's stage that one is not recorded: the stage before would
// get its gradient behind the sums.
inline bool records_sums(const RunConfig& config) {
  return config.run.cuda_graphs && config.run.backend == comm::Backend::nccl &&
         config.parallel.mesh.pipeline == 1 && !config.has_stand_ins();
}

}  // namespace trireme::config
