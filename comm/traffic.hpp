// Traffic: what the collectives of one kind did.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "comm/collective.hpp"

namespace trireme::comm {

struct Traffic {
  std::int64_t calls = 0;  // started
  std::int64_t bytes = 0;  // sent by this rank
  // That this rank was blocked for messages in Handle::wait(). Waiting for the own GPU is
  // not in it, nor is NCCL, where the GPU waits and not the host.
  double exposed_seconds = 0;

  Traffic& operator+=(const Traffic& other) {
    calls += other.calls;
    bytes += other.bytes;
    exposed_seconds += other.exposed_seconds;
    return *this;
  }
  Traffic operator-(const Traffic& before) const {
    return {calls - before.calls, bytes - before.bytes,
            exposed_seconds - before.exposed_seconds};
  }
};

// Traffic of each kind is found at [static_cast<std::size_t>(Collective)].
using TrafficByKind = std::array<Traffic, collective_kinds>;

}  // namespace trireme::comm
