// How a rank waits for its GPU, which may wait for other ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mpi/state.hpp"

namespace trireme::comm {

// As long as one lives, the thread that made the first waits for its GPU by asking
// (base/device_wait.hpp): its messages move on, errors of NCCL are seen, and the world's
// time-out ends the job when for so long no collective has come or gone.
class DevicePatience {
 public:
  explicit DevicePatience(WorldState& state);
  ~DevicePatience();
  DevicePatience(const DevicePatience&) = delete;
  DevicePatience& operator=(const DevicePatience&) = delete;
};

}  // namespace trireme::comm
