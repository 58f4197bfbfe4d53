// Which GPU a process computes on.
// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_devices.hpp"

#include "base/error.hpp"

namespace trireme {

int cuda_device_of(int rank_on_node, int ranks_on_node, int devices, bool share) {
  require(rank_on_node >= 0 && rank_on_node < ranks_on_node, "rank {} of {} on a node",
          rank_on_node, ranks_on_node);
  require(devices > 0, Status::resources,
          "run.device = \"cuda\", but this process sees no GPU: ask for GPUs where the "
          "job is "
          "started, or set run.device = \"cpu\"");
  require(devices == 1 || share || ranks_on_node <= devices, Status::resources,
          "{} ranks of a node would share its {} GPUs: start at most {} ranks on a node, "
          "use nodes with more GPUs, or set run.share_gpus = true",
          ranks_on_node, devices, devices);
  return rank_on_node % devices;
}

}  // namespace trireme
