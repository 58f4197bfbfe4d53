// DeviceTransport: how the collectives of one group travel between GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "comm/group.hpp"

namespace trireme::comm {

// Of a group of more than one rank whose tensors lie on one GPU a rank.
class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;

  // Starts `call` after what `stream` has queued, and ends its entry in the trace when it
  // is seen to be over. Handle::wait() makes the stream hold for the result.
  virtual Handle start(const Group::Call& call, Stream& stream, const TensorView& from,
                       const TensorView& to) = 0;

  // See Group::Exchange. What fails at the end ends the job.
  virtual void begin_exchange() {}
  virtual void end_exchange() noexcept {}

  // Whether its calls can become part of a graph that is recorded (comm/recording.hpp).
  virtual bool can_be_recorded() const { return false; }

  // Bytes of staging memory that it holds beside the host group's.
  virtual std::size_t staging_bytes() const = 0;
};

}  // namespace trireme::comm
